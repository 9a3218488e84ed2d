"""Both clients against a real server."""

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bettercompute.client import failures
from bettercompute.client.asynchronous import AsyncClient
from bettercompute.client.blocking import Client
from bettercompute.client.calls import Answer
from tests.support import answers, wire_server
from tests.support.wire_server import DROP, Received, WireServer

TOKEN = "bct_secret"
Serve = Callable[[Callable[[Received], Answer]], WireServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers that stop with the test."""
    import contextlib

    with contextlib.ExitStack() as running:
        yield lambda answer: running.enter_context(wire_server.serve(answer))


def in_turn(*outcomes: Answer) -> Callable[[Received], Answer]:
    script = iter(outcomes)
    return lambda _: next(script)


def call_blocking(server: WireServer, call: Callable[[Any], Any]) -> Any:
    with Client(server.url, TOKEN, "ten_acme") as client:
        client.api.jitter = lambda low, high: 0.0
        return call(client)


def call_async(server: WireServer, call: Callable[[Any], Any]) -> Any:
    async def run() -> Any:
        async with AsyncClient(server.url, TOKEN, "ten_acme") as client:
            client.api.jitter = lambda low, high: 0.0
            return await call(client)

    return asyncio.run(run())


both = pytest.mark.parametrize("run", [call_blocking, call_async])


@pytest.mark.rule("A9")
@both
def test_a_server_that_fails_twice_is_asked_three_times_with_one_key(
    serve: Serve, run: Any
) -> None:
    server = serve(
        in_turn(
            DROP,
            answers.refusal(503, "UNAVAILABLE"),
            answers.answer(answers.reservation("placed"), 201),
        )
    )
    found = run(
        server,
        lambda client: client.reservations.create(
            pool_id="pool_main", devices=[{"class": "gpu", "count": 2}], duration="8h"
        ),
    )
    assert found.id == "rsv_first"
    keys = [received.body["idempotencyKey"] for received in server.received]
    assert len(keys) == 3
    assert len(set(keys)) == 1


@both
def test_the_token_goes_in_its_header_and_nowhere_else(serve: Serve, run: Any) -> None:
    server = serve(in_turn(answers.answer(answers.whoami())))
    run(server, lambda client: client.whoami())
    (received,) = server.received
    assert received.headers["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in received.path


@both
def test_a_redirect_never_takes_the_token_elsewhere(serve: Serve, run: Any) -> None:
    elsewhere = serve(in_turn(answers.answer(answers.whoami())))
    server = serve(in_turn(Answer(302, {"location": elsewhere.url}, b"")))
    with pytest.raises(failures.UnexpectedAnswer):
        run(server, lambda client: client.whoami())
    assert elsewhere.received == []


@both
def test_nobody_listening_is_unreachable(run: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but it does not listen
        closed = WireServer(in_turn(), url=f"http://127.0.0.1:{taken.getsockname()[1]}")

        def call(client: Any) -> Any:
            client.api.timeout_seconds = 0.2
            return client.whoami()

        with pytest.raises(failures.Unreachable) as raised:
            run(closed, call)
    assert closed.url in raised.value.detail


@both
def test_a_server_that_never_answers_is_given_up(serve: Serve, run: Any) -> None:
    import threading

    over = threading.Event()

    def hang(_: Received) -> Answer:
        over.wait(10)
        return DROP

    server = serve(hang)

    def call(client: Any) -> Any:
        client.api.timeout_seconds = 0.2
        return client.whoami()

    try:
        with pytest.raises(failures.Unreachable, match="does not answer in time"):
            run(server, call)
    finally:
        over.set()


def three_pages(received: Received) -> Answer:
    cursor = received.path.partition("cursor=")[2].partition("&")[0]
    number = int(cursor or 0)
    items = [answers.reservation(id=f"rsv_{number}{letter}") for letter in "ab"]
    return answers.answer({"items": items, "nextCursor": str(number + 1) if number < 2 else None})


ALL_SIX = ["rsv_0a", "rsv_0b", "rsv_1a", "rsv_1b", "rsv_2a", "rsv_2b"]


def test_a_list_walks_over_its_pages(serve: Serve) -> None:
    server = serve(three_pages)
    found = call_blocking(server, lambda client: [each.id for each in client.reservations.list()])
    assert found == ALL_SIX


def test_a_list_asks_for_no_page_that_is_not_reached(serve: Serve) -> None:
    server = serve(three_pages)
    call_blocking(server, lambda client: list(itertools.islice(client.reservations.list(), 2)))
    assert len(server.received) == 1


def test_an_async_list_walks_over_its_pages(serve: Serve) -> None:
    server = serve(three_pages)

    async def ids(client: AsyncClient) -> list[str]:
        return [each.id async for each in client.reservations.list()]

    assert call_async(server, ids) == ALL_SIX


def test_an_async_call_that_is_cancelled_ends_at_once_and_is_not_repeated(serve: Serve) -> None:
    server = serve(in_turn(*[answers.refusal(503, "UNAVAILABLE", retry_after="20")] * 2))

    async def run() -> None:
        async with AsyncClient(server.url, TOKEN, "ten_acme") as client:
            call = asyncio.create_task(client.whoami())
            while not server.received:
                await asyncio.sleep(0.005)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(call, 1)

    asyncio.run(run())
    assert len(server.received) == 1


@pytest.mark.parametrize(
    "url", ["", "compute.example.org", "ftp://x", "http://", "http://u:p@x", "http://x?a=1"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Client(url, TOKEN)


@pytest.mark.parametrize("token", ["", "bct a", "bct_\n", "bct_é"])
def test_what_cannot_be_a_token_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(ValueError, match="token") as raised:
        Client("http://x", token)
    assert "bct" not in str(raised.value)


def test_an_address_may_have_a_path(serve: Serve) -> None:
    server = serve(in_turn(answers.answer(answers.whoami())))
    with Client(f"{server.url}/compute/", TOKEN) as client:
        client.whoami()
    assert server.received[0].path == "/compute/api/v1/whoami"
