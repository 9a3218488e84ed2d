"""One attempt against real receivers: each costs one bounded slot, whatever it does (A6, case 31).

The receivers run in the test's own event loop, and those that draw an attempt out let time pass in
it; what shows that a slot is bounded is that the attempt ends, and what it says.
"""

import asyncio
import gzip
from contextlib import AsyncExitStack

import pytest

from outbox.webhooks.sending import Attempt, Failure, Sender
from tests.support import hostile_receivers as receivers
from tests.support import receiving
from tests.support.hostile_receivers import (
    LOOPBACK,
    OK,
    SECRET,
    Behaviour,
    Reader,
    Writer,
    closes_at_once,
    hangs,
    lets_time_pass,
)

pytestmark = [pytest.mark.rule("A6")]


def _one(behaviour: Behaviour, *, times: int = 1) -> list[Attempt]:
    """Attempts, one after the other, at a receiver that behaves like this."""

    async def run() -> list[Attempt]:
        async with (
            receivers.receiver(behaviour) as here,
            Sender(rules=LOOPBACK) as sender,
        ):
            return [await sender.send(here.message()) for _ in range(times)]

    return receivers.run(run())


def test_a_message_arrives_signed_and_its_answer_is_kept() -> None:
    seen: list[tuple[dict[str, str], bytes]] = []
    [attempt] = _one(receivers.answering(OK, into=seen))
    [(headers, body)] = seen
    assert attempt.failure is None
    assert (attempt.status, attempt.answer, attempt.answer_cut) == (200, b"ok", False)
    assert attempt.address == "127.0.0.1"
    assert receiving.verified(SECRET, headers=headers, body=body)["id"] == "evt_1"
    assert {name.lower(): value for name, value in attempt.request_headers.items()} == headers
    assert SECRET not in str(attempt)


def test_a_message_leaves_in_one_piece() -> None:
    pieces: list[bytes] = []

    async def takes_pieces(reader: Reader, writer: Writer) -> None:
        pieces.append(await reader.read(65_536))
        writer.write(OK)
        await writer.drain()
        await reader.read(1)

    [attempt] = _one(takes_pieces)
    assert attempt.failure is None
    assert pieces[0].startswith(b"POST /hook HTTP/1.1\r\n")
    assert pieces[0].endswith(receivers.message("http://x").body)


def test_an_answer_before_all_was_read_counts() -> None:
    """Whoever refuses a message by its head may close before the rest has come."""

    async def refuses(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()

    [attempt] = _one(refuses)
    assert (attempt.failure, attempt.status) == (Failure.STATUS, 413)


def test_one_connection_serves_one_message_after_the_other() -> None:
    async def run() -> int:
        async with (
            receivers.receiver(receivers.answering(OK)) as here,
            Sender(rules=LOOPBACK) as sender,
        ):
            for _ in range(5):
                assert (await sender.send(here.message())).failure is None
            return here.connections

    assert asyncio.run(run()) == 1


def test_a_connection_that_was_closed_meanwhile_costs_no_failure() -> None:
    seen: list[tuple[dict[str, str], bytes]] = []

    async def once(reader: Reader, writer: Writer) -> None:
        seen.append(await receivers.request(reader))
        writer.write(OK)
        await writer.drain()
        if len(seen) == 1:
            await reader.read(1)  # the second message, and goes away without an answer

    attempts = _one(once, times=2)
    assert [each.failure for each in attempts] == [None, None]
    assert len(seen) == 2
    assert seen[0][1] == seen[1][1]


@pytest.mark.parametrize("status", [b"301 Moved", b"302 Found", b"307 Temporary", b"308 Permanent"])
@pytest.mark.case(31)
def test_no_redirect_is_followed_anywhere(status: bytes) -> None:
    async def run() -> tuple[Attempt, int]:
        async with receivers.receiver(receivers.answering(OK)) as inner:
            head = b"HTTP/1.1 %b\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n"
            raw = head % (status, inner.url().encode())
            async with (
                receivers.receiver(receivers.answering(raw)) as here,
                Sender(rules=LOOPBACK) as sender,
            ):
                return await sender.send(here.message()), inner.connections

    attempt, reached = asyncio.run(run())
    assert (attempt.failure, attempt.status) == (Failure.STATUS, int(status[:3]))
    assert "redirects are not followed" in attempt.message
    assert reached == 0


def test_an_answer_that_is_no_2xx_is_told_with_what_it_asks() -> None:
    raw = b"HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nContent-Length: 5\r\n\r\nlater"
    [attempt] = _one(receivers.answering(raw))
    assert (attempt.failure, attempt.status, attempt.answer) == (Failure.STATUS, 503, b"later")
    assert attempt.retry_after is not None
    assert attempt.retry_after.total_seconds() == 120


async def _drips(writer: Writer, drop: bytes) -> None:
    """For as long as it is let; much time passes between its drops."""
    while True:
        writer.write(drop)
        await writer.drain()
        await receivers.leap()


async def _drips_its_head(reader: Reader, writer: Writer) -> None:
    await receivers.request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
    await _drips(writer, b"x")


async def _never_answers_but_says_so(reader: Reader, writer: Writer) -> None:
    await receivers.request(reader)
    await _drips(writer, b"HTTP/1.1 102 Processing\r\n\r\n")


@pytest.mark.parametrize("behaviour", [lets_time_pass, _drips_its_head, _never_answers_but_says_so])
def test_who_never_answers_is_given_up(behaviour: Behaviour) -> None:
    [attempt] = _one(behaviour)
    assert (attempt.failure, attempt.status) == (Failure.TIMED_OUT, None)
    assert attempt.message == "Timed out while waiting for the answer."


async def _drips_its_body(reader: Reader, writer: Writer) -> None:
    await receivers.request(reader)
    writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 1000000\r\n\r\n")
    await _drips(writer, b"x")


async def _closes_within_its_body(reader: Reader, writer: Writer) -> None:
    await receivers.request(reader)
    writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 1000000\r\n\r\nxxx")
    await writer.drain()


@pytest.mark.parametrize("behaviour", [_drips_its_body, _closes_within_its_body])
def test_the_first_line_decides_however_the_answer_goes_on(behaviour: Behaviour) -> None:
    [attempt] = _one(behaviour)
    assert (attempt.failure, attempt.status, attempt.answer_cut) == (None, 202, True)
    assert attempt.answer.startswith(b"x")


def test_of_an_answer_of_a_gibibyte_64_kib_are_read() -> None:
    gibibyte, chunk = 1024**3, b"y" * 2**16
    written = 0

    async def endless(reader: Reader, writer: Writer) -> None:
        nonlocal written
        await receivers.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % gibibyte)
        while written < gibibyte:
            writer.write(chunk)
            written += len(chunk)
            await writer.drain()

    [attempt] = _one(endless)
    assert (attempt.failure, attempt.answer, attempt.answer_cut) == (None, b"y" * 4096, True)
    # What the kernel's buffers took beside that is not ours.
    assert written < gibibyte / 20


def test_a_head_without_an_end_is_not_read_to_it() -> None:
    async def endless(reader: Reader, writer: Writer) -> None:
        await receivers.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-Header: " + b"z" * 1000 + b"\r\n")
            await writer.drain()

    [attempt] = _one(endless)
    assert (attempt.failure, attempt.status) == (Failure.BROKEN, None)


def test_what_is_packed_is_kept_packed() -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    [attempt] = _one(receivers.answering(head + bomb))
    assert attempt.failure is None
    assert attempt.answer == bomb[:4096]


async def _closes_after_reading(reader: Reader, writer: Writer) -> None:
    await receivers.request(reader)


def _says(raw: bytes) -> Behaviour:
    async def behave(reader: Reader, writer: Writer) -> None:
        await receivers.request(reader)
        writer.write(raw)
        await writer.drain()

    return behave


@pytest.mark.parametrize(
    "behaviour",
    [
        closes_at_once,
        _closes_after_reading,
        _says(b"\x00\xff" * 500),
        _says(b"220 mail.example.com ESMTP\r\n"),
        _says(b"HTTP/1.1 abc OK\r\n\r\n"),
        _says(b"\xff" * 60_000 + b"\r\n\r\n"),
        _says(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        _says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        _says(b"HTTP/1.1 200 OK\r\nBad Header\r\n\r\n"),
        _says(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00\x03\x00\x00\x00\x80" * 3),  # HTTP/2
        _says(b"HTTP/2 200\r\n\r\n"),
        _says(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"),
    ],
)
def test_who_closes_early_or_speaks_no_http_1_has_failed(behaviour: Behaviour) -> None:
    [attempt] = _one(behaviour)
    assert (attempt.failure, attempt.status) == (Failure.BROKEN, None)
    assert attempt.message.startswith("Closed the connection, or does not speak HTTP/1.1")
    assert len(attempt.message) < 250
    assert "bytearray" not in attempt.message


def test_where_nobody_listens_it_says_so() -> None:
    async def run() -> Attempt:
        async with receivers.receiver(hangs) as here:
            url = here.url()
        async with Sender(rules=LOOPBACK) as sender:
            return await sender.send(receivers.message(url))

    attempt = asyncio.run(run())
    assert (attempt.failure, attempt.address) == (Failure.UNREACHABLE, "127.0.0.1")


def test_hundreds_of_hanging_receivers_delay_no_other() -> None:
    """All of them hang until the end of the block; the one that works is answered among them."""

    async def run() -> Attempt:
        async with AsyncExitStack() as stack:
            hanging = await stack.enter_async_context(receivers.receiver(hangs))
            working = await stack.enter_async_context(receivers.receiver(receivers.answering(OK)))
            sender = await stack.enter_async_context(Sender(rules=LOOPBACK))
            stuck = [asyncio.create_task(sender.send(hanging.message())) for _ in range(300)]
            attempt = await sender.send(working.message())
            assert not any(each.done() for each in stuck)
            for each in stuck:
                each.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)
            return attempt

    assert asyncio.run(run()).failure is None
