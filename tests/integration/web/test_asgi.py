"""The ASGI application as a server calls it."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from bettercompute import asgi
from bettercompute.web import bridge, health, problems
from bettercompute.web.bridge import Answer
from bettercompute.web.serving import Served
from nodes.gateway import app as gateway

Headers = Sequence[tuple[bytes, bytes]]


def call(
    path: str,
    *,
    method: str = "GET",
    headers: Headers = (),
    hosts: Sequence[bytes] = (b"compute.example.org",),
    version: str = "1.1",
    messages: Sequence[dict[str, Any]] = ({"type": "http.request", "body": b""},),
    application: Any = asgi.application,
) -> Answer | None:
    """One request through the application; None where nothing was answered."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [*((b"host", host) for host in hosts), *headers],
        "http_version": version,
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 5000),
    }
    incoming = list(messages)
    sent: list[Any] = []

    async def receive() -> Any:
        if not incoming:
            await asyncio.Event().wait()  # connected, and silent
        return incoming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(application(scope, receive, send))
    if not sent:
        return None
    return Answer(sent[0]["status"], sent[0]["headers"], sent[1]["body"])


def refused(answer: Answer | None, status: int, code: str) -> dict[str, Any]:
    assert answer is not None
    assert answer.status == status
    assert answer.header(b"content-type") == problems.MEDIA_TYPE.encode()
    document: dict[str, Any] = json.loads(answer.body)
    assert document["code"] == code
    assert document["requestId"].encode() == answer.header(b"x-request-id")
    return document


@pytest.fixture
def django(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    """Stands for Django: records what reaches it, answers 204."""
    seen: list[tuple[str, bytes]] = []

    async def record(_: object, scope: Any, body: bytes) -> Answer:
        seen.append((scope["path"], body))
        return Answer(204)

    monkeypatch.setattr(bridge.WsgiBridge, "call", record)
    return seen


@pytest.mark.rule("C39")
def test_health_needs_neither_django_nor_a_database(django: list[Any]) -> None:
    answer = call("/healthz")
    assert answer is not None
    assert (answer.status, answer.body) == (200, health.ALIVE)
    assert django == []


@pytest.mark.rule("A3")
def test_metrics_that_are_refused_say_by_which_id(django: list[Any]) -> None:
    answer = call("/metrics", headers=[(b"x-request-id", b"mine-0001")])
    assert refused(answer, 401, "UNAUTHENTICATED")["requestId"] == "mine-0001"
    assert django == []


@pytest.mark.rule("A3")
def test_what_fails_before_django_answers_is_a_problem_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> Answer:
        raise RuntimeError("a secret of ours")

    monkeypatch.setattr(bridge.WsgiBridge, "call", fail)
    answer = call("/api/v1/x", headers=[(b"x-request-id", b"mine-0001")])
    assert refused(answer, 500, "INTERNAL")["requestId"] == "mine-0001"
    assert answer is not None
    assert b"secret" not in answer.body


def test_a_body_arrives_whole_before_django_is_called(django: list[Any]) -> None:
    parts = [
        {"type": "http.request", "body": b"one ", "more_body": True},
        {"type": "http.request", "body": b"two", "more_body": False},
    ]
    call("/api/v1/x", method="POST", headers=[(b"content-length", b"7")], messages=parts)
    assert django == [("/api/v1/x", b"one two")]


@pytest.mark.rule("A3", "A11")
def test_a_body_too_large_is_refused_before_it_is_read(django: list[Any]) -> None:
    answer = call("/api/v1/x", method="POST", headers=[(b"content-length", b"262145")], messages=[])
    refused(answer, 413, "PAYLOAD_TOO_LARGE")
    assert answer is not None
    assert answer.header(b"connection") == b"close"
    assert django == []


@pytest.mark.rule("A3")
def test_a_chunked_body_is_refused(django: list[Any]) -> None:
    headers = [(b"transfer-encoding", b"chunked"), (b"x-request-id", b"mine-12345678")]
    document = refused(call("/api/v1/x", method="POST", headers=headers), 411, "LENGTH_REQUIRED")
    assert document["requestId"] == "mine-12345678"
    assert django == []


@pytest.mark.rule("A3")
@pytest.mark.parametrize("path", ["/api/v1/x", "/", "/healthz", "/metrics"])
@pytest.mark.parametrize("hosts", [(), (b"a.example.org", b"b.example.org")])
def test_a_request_that_names_no_host_or_two_is_refused(
    django: list[Any], path: str, hosts: Sequence[bytes]
) -> None:
    document = refused(call(path, hosts=hosts), 400, "INVALID_INPUT")
    assert [error["path"] for error in document["details"]["errors"]] == ["Host"]
    assert django == []


@pytest.mark.rule("A3")
@pytest.mark.parametrize("hosts", [(), (b"a.example.org", b"b.example.org")])
def test_the_gateway_refuses_it_too(hosts: Sequence[bytes]) -> None:
    served = gateway.Application()
    for path in ("/healthz", "/node/v1/hello"):
        refused(call(path, hosts=hosts, application=served), 400, "INVALID_INPUT")
    answer = call("/healthz", application=served)
    assert answer is not None
    assert answer.status == 200


@pytest.mark.rule("A3")
@pytest.mark.parametrize("application", [asgi.application, gateway.Application()])
def test_a_request_line_may_name_the_host_as_well(application: Any) -> None:
    """As a client of a proxy writes it: it asks for the same."""
    origin = "http://compute.example.org"
    alive = call(f"{origin}/healthz", application=application)
    assert alive is not None
    assert alive.status == 200
    refused(call(f"{origin}/metrics", application=application), 401, "UNAUTHENTICATED")


def test_before_http_1_1_nobody_had_to_name_the_host(django: list[Any]) -> None:
    assert call("/api/v1/x", hosts=(), version="1.0") is not None
    assert django == [("/api/v1/x", b"")]


def test_a_body_that_does_not_arrive_in_time_takes_no_thread(
    django: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi, "BODY_SECONDS_MAX", 0.01)
    answer = call("/api/v1/x", method="POST", headers=[(b"content-length", b"7")], messages=[])
    refused(answer, 400, "INVALID_INPUT")
    assert django == []


def test_a_client_that_leaves_while_sending_is_not_answered(django: list[Any]) -> None:
    messages = [
        {"type": "http.request", "body": b"half", "more_body": True},
        {"type": "http.disconnect"},
    ]
    assert call("/api/v1/x", method="POST", messages=messages) is None
    assert django == []


@pytest.mark.rule("R14")
def test_the_wait_marker_never_reaches_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    marked = Answer(
        201,
        [(b"x-bettercompute-wait", b'{"reservationId": "rsv_1", "timeoutMs": 1}')],
        b'{"id": "rsv_1"}',
    )

    async def answer_marked(*_: object) -> Answer:
        return marked

    async def look(_: str) -> None:
        return None

    monkeypatch.setattr(bridge.WsgiBridge, "call", answer_marked)
    monkeypatch.setattr(asgi, "_look", look)
    ended: list[Served] = []
    monkeypatch.setattr(Served, "end", lambda served, *_, **__: ended.append(served))
    answer = call("/api/v1/reservations", method="POST")
    assert answer is not None
    assert (answer.status, answer.body) == (201, b'{"id": "rsv_1"}')
    assert ended[0].waited > 0  # which is not how long we took
    assert answer.header(b"x-bettercompute-wait") is None
