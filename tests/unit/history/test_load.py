"""The load itself, against small servers that lose answers, fail and come back."""

import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from bettercompute.client.calls import Answer as HttpAnswer
from tests.support.history import checker, clients, final
from tests.support.history.clients import Load, Unsettled
from tests.support.history.recording import Call, Recorder
from tests.support.history.wishes import Seat
from tests.support.wire_server import DROP, Received, serve
from tests.unit.history import cloud

SEATS = [Seat(name, name, tenant, ("pool-1",)) for name, tenant in cloud.CALLERS.items()]
QUICK: dict[str, Any] = {"seats": SEATS, "rate": 2_000.0, "timeout": 5.0}


@dataclass
class Backend:
    """The tiny cloud behind HTTP; ``fate`` may lose a request, its answer, or refuse it."""

    fate: Callable[[Call], str] = lambda _: "answer"
    cloud_: cloud.Cloud = field(default_factory=lambda: cloud.Cloud(random.Random(5)))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, received: Received) -> HttpAnswer:
        call = _call(received)
        with self.lock:
            fate = self.fate(call)
            if fate == "lose the request":
                return DROP
            if fate == "unavailable":
                return _http(*cloud.problem(503, "UNAVAILABLE"), retry_after="0.01")
            if call.op == "preview":
                return _http(200, {"fits": True})
            answered = _http(*self.cloud_.do(call))
            self.cloud_.work()
            return DROP if fate == "lose the answer" else answered


def _call(received: Received) -> Call:
    """The call that a request is."""
    caller = received.headers["authorization"].removeprefix("Bearer ")
    parts = urlsplit(received.path)
    asked = dict(received.body or {}, **dict(parse_qsl(parts.query)))
    if "limit" in asked:
        asked["limit"] = int(asked["limit"])
    segments = parts.path.removeprefix("/api/v1/").split("/")
    names = {
        ("POST", "reservations", 1): "create",
        ("GET", "reservations", 1): "list",
        ("GET", "reservations", 2): "get",
        ("GET", "quotas", 1): "quotas",
        ("POST", "capacity", 2): "preview",
    }
    op = names.get((received.method, segments[0], len(segments)), segments[-1])
    key = asked.pop("idempotencyKey", None)
    target = segments[1] if op in {"get", "release", "cancel"} else None
    tenant = asked.get("tenantId", cloud.CALLERS[caller])
    if op == "create":
        asked["duration"] = {"2s": "2000ms", "5s": "5000ms"}.get(asked["duration"], "3600000ms")
    return Call(op, caller=caller, tenant=tenant, key=key, target=target, asked=asked)


def _http(status: int, document: dict[str, Any], **more: str) -> HttpAnswer:
    headers = dict(cloud.answer(status, document).headers)
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    return HttpAnswer(status, headers, json.dumps(document).encode())


def test_a_load_on_a_correct_server_has_no_anomaly() -> None:
    rng = random.Random(7)
    fates = ["answer"] * 6 + ["lose the request", "lose the answer", "unavailable"]
    recorder = Recorder()
    backend = Backend(lambda _: rng.choice(fates))
    with serve(backend) as server:
        with Load(recorder, [server.url], seed=1, operations_max=150, **QUICK) as load:
            load.wait()
        backend.fate = lambda _: "answer"
        final.read(recorder, [server.url], SEATS)

    history = recorder.history()
    assert list(map(str, checker.check(history))) == []
    assert load.tally["create lost"] > 0
    assert load.tally["create 503"] > 0
    made = {each.call.key for each in history.operations if each.call.op == "create"}
    known = {e.call.key for e in history.operations if e.acknowledged or e.refused}
    assert made <= known
    assert set(load.acknowledged) <= set(backend.cloud_.rows)


def test_a_lost_create_is_sent_again_with_its_key_and_body() -> None:
    lost: list[str | None] = []

    def fate(call: Call) -> str:
        if call.op != "create" or len(lost) == 3:
            return "answer"
        lost.append(call.key)
        return "lose the answer"

    recorder = Recorder()
    with serve(Backend(fate)) as server:
        load = Load(recorder, [server.url], threads=1, operations_max=3, mix={"create": 1}, **QUICK)
        with load:
            load.wait()
    creates = recorder.history().operations
    for key in lost:
        first, *others = [each for each in creates if each.call.key == key]
        assert first.unknown
        assert others[-1].status == 200
        assert all(each.call.asked == first.call.asked for each in others)


def test_it_goes_to_the_next_control_plane_when_one_fails() -> None:
    recorder = Recorder()
    with serve(Backend(lambda _: "unavailable")) as down, serve(Backend()) as up:
        urls = [down.url, up.url]
        with Load(recorder, urls, threads=1, operations_max=6, mix={"list": 1}, **QUICK) as load:
            load.wait()
    answered = [(each.call.url, each.status) for each in recorder.history().operations]
    assert answered == [(down.url, 503)] + [(up.url, 200)] * 5


def test_what_is_never_known_is_told() -> None:
    recorder = Recorder()
    with serve(Backend(lambda _: "lose the request")) as server:
        load = Load(recorder, [server.url], threads=1, operations_max=1, mix={"create": 1}, **QUICK)
        load.start().wait()
        with pytest.raises(Unsettled, match="load-0-1"):
            load.stop(within=0.3)


def test_one_seed_asks_for_the_same() -> None:
    def asked() -> list[Call]:
        recorder = Recorder()
        with serve(Backend()) as server:
            load = Load(recorder, [server.url], seed=4, threads=1, operations_max=40, **QUICK)
            with load:
                load.wait()
        return [each.call for each in recorder.history().operations]

    def timeless(call: Call) -> tuple[Any, ...]:
        return call.op, call.caller, call.key, call.target, dict(call.asked)

    assert list(map(timeless, asked())) == list(map(timeless, asked()))


def test_a_client_that_breaks_is_told_of() -> None:
    recorder = Recorder()
    load = Load(recorder, ["http://127.0.0.1:9"], threads=1, mix={"no such thing": 1}, **QUICK)
    load.start().wait()
    with pytest.raises(KeyError):
        load.stop(within=0.1)


def test_it_does_not_wait_long_for_an_answer_that_says_so() -> None:
    answer = clients.Answer(503, {}, {"retry-after": "3600"})
    done = clients.Operation(1, Call("get", caller="a", tenant="t"), 0.0, 1.0, answer)
    assert clients.retry_after(done) == clients.RETRY_AFTER_MAX
