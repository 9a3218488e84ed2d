"""One attempt against real receivers: each costs one bounded slot, whatever it does (A6, case 31).

The receivers run in the test's own event loop. Limits are short where a receiver would use them up;
what shows that a slot is bounded is that the attempt ends, and what it says.
"""

import asyncio
import gzip
import ipaddress
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from outbox.webhooks import resolving, sending
from outbox.webhooks.addresses import Rules
from outbox.webhooks.resolving import Resolver
from outbox.webhooks.sending import Attempt, Failure, Limits, Request, Sender
from tests.support import hostile_receivers as receivers
from tests.support import receiving
from tests.support.hostile_receivers import LOOPBACK, Behaviour, Reader, Writer

pytestmark = [pytest.mark.rule("A6")]

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"id":"evt_1","type":"reservation.active"}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
# A receiver that uses these up has hung; one that works is far from them even on a slow machine.
SHORT = Limits(total_seconds=1.0, connect_seconds=0.5, handshake_seconds=0.5)


def _request(url: str) -> Request:
    return Request(
        url=url, message_id="evt_1", timestamp=1_772_442_000, body=BODY, secrets=[SECRET]
    )


def _one(behaviour: Behaviour, *, limits: Limits | None = None, times: int = 1) -> list[Attempt]:
    """Attempts, one after the other, at a receiver that behaves like this."""

    async def run() -> list[Attempt]:
        async with (
            receivers.receiver(behaviour) as here,
            Sender(rules=LOOPBACK, limits=limits) as sender,
        ):
            return [await sender.send(_request(here.url())) for _ in range(times)]

    return asyncio.run(run())


def _resolver(*answers: Sequence[str]) -> Resolver:
    """A name server of our own: its first answer, its second, and so on."""
    left = [tuple(ipaddress.ip_address(each) for each in one) for one in answers]
    return Resolver(lambda _: left.pop(0) if len(left) > 1 else left[0])


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


def test_one_connection_serves_one_message_after_the_other() -> None:
    async def run() -> int:
        async with (
            receivers.receiver(receivers.answering(OK)) as here,
            Sender(rules=LOOPBACK) as sender,
        ):
            for _ in range(5):
                assert (await sender.send(_request(here.url()))).failure is None
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
                return await sender.send(_request(here.url())), inner.connections

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


async def _hangs(reader: Reader, writer: Writer) -> None:
    await asyncio.Event().wait()


async def _drips_its_head(reader: Reader, writer: Writer) -> None:
    await receivers.request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def _never_answers_but_says_so(reader: Reader, writer: Writer) -> None:
    await receivers.request(reader)
    while True:
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("behaviour", [_hangs, _drips_its_head, _never_answers_but_says_so])
def test_who_never_answers_is_given_up(behaviour: Behaviour) -> None:
    [attempt] = _one(behaviour, limits=Limits(total_seconds=0.3))
    assert (attempt.failure, attempt.status) == (Failure.TIMED_OUT, None)
    assert attempt.message == "Timed out while waiting for the answer."


async def _drips_its_body(reader: Reader, writer: Writer) -> None:
    await receivers.request(reader)
    writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def _closes_within_its_body(reader: Reader, writer: Writer) -> None:
    await receivers.request(reader)
    writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 1000000\r\n\r\nxxx")
    await writer.drain()


@pytest.mark.parametrize("behaviour", [_drips_its_body, _closes_within_its_body])
def test_the_first_line_decides_however_the_answer_goes_on(behaviour: Behaviour) -> None:
    [attempt] = _one(behaviour, limits=Limits(total_seconds=0.3))
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


async def _closes_at_once(reader: Reader, writer: Writer) -> None:
    return


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
        _closes_at_once,
        _closes_after_reading,
        _says(b"\x00\xff" * 500),
        _says(b"220 mail.example.com ESMTP\r\n"),
        _says(b"HTTP/1.1 abc OK\r\n\r\n"),
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


def test_where_nobody_listens_it_says_so() -> None:
    async def run() -> Attempt:
        async with receivers.receiver(_hangs) as here:
            url = here.url()
        async with Sender(rules=LOOPBACK) as sender:
            return await sender.send(_request(url))

    attempt = asyncio.run(run())
    assert (attempt.failure, attempt.address) == (Failure.UNREACHABLE, "127.0.0.1")


def test_hundreds_of_hanging_receivers_delay_no_other() -> None:
    """All of them hang until the end of the block; the one that works is answered among them."""

    async def run() -> Attempt:
        async with AsyncExitStack() as stack:
            hanging = await stack.enter_async_context(receivers.receiver(_hangs))
            working = await stack.enter_async_context(receivers.receiver(receivers.answering(OK)))
            sender = await stack.enter_async_context(Sender(rules=LOOPBACK))
            stuck = [asyncio.create_task(sender.send(_request(hanging.url()))) for _ in range(300)]
            attempt = await sender.send(_request(working.url()))
            assert not any(each.done() for each in stuck)
            for each in stuck:
                each.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)
            return attempt

    assert asyncio.run(run()).failure is None


# Names and addresses


@pytest.mark.case(31)
@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["169.254.169.254"],
        ["8.8.8.8", "10.0.0.1"],
    ],
)
def test_a_name_with_an_inner_address_is_not_called(answer: list[str]) -> None:
    async def run() -> tuple[Attempt, int]:
        async with (
            receivers.receiver(receivers.answering(OK)) as here,
            Sender(rules=Rules(plain_http=True), resolver=_resolver(answer)) as sender,
        ):
            return await sender.send(_request(here.url("hooks.example.com"))), here.connections

    attempt, reached = asyncio.run(run())
    assert attempt.failure is Failure.REFUSED
    assert reached == 0
    # Whoever sets webhooks learns nothing of the names within.
    assert attempt.message == "hooks.example.com has an address that is not public."
    assert attempt.address is None


@pytest.mark.case(31)
def test_a_name_that_moves_inside_after_it_was_saved_is_not_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resolving, "KEPT_SECONDS", 0.0)
    rules = Rules(plain_http=True)

    async def run() -> tuple[Attempt, int]:
        resolver = _resolver(["8.8.8.8"], ["127.0.0.1"])
        async with (
            receivers.receiver(receivers.answering(OK)) as here,
            Sender(rules=rules, resolver=resolver) as sender,
        ):
            url = here.url("rebind.example.com")
            target = sending.addresses.parse(url, rules=rules)
            resolving.refuse_inner(target, rules=rules, resolver=resolver, seconds=5)
            return await sender.send(_request(url)), here.connections

    attempt, reached = asyncio.run(run())
    assert (attempt.failure, reached) == (Failure.REFUSED, 0)


def test_a_name_within_is_refused_when_it_is_saved() -> None:
    rules = Rules()
    target = sending.addresses.parse("https://inner.example.com/", rules=rules)
    with pytest.raises(sending.Refused, match="not public"):
        resolving.refuse_inner(target, rules=rules, resolver=_resolver(["10.0.0.1"]), seconds=5)

    def unknown(name: str) -> resolving.Answer:
        assert name == "inner.example.com."  # this machine's search list completes nothing
        raise resolving.Unresolved

    # One that nobody knows yet is judged when it is called.
    resolving.refuse_inner(target, rules=rules, resolver=Resolver(unknown), seconds=5)


@pytest.mark.case(31)
def test_the_address_that_was_judged_is_the_one_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name server that answers otherwise each time is asked once for each attempt."""
    monkeypatch.setattr(resolving, "KEPT_SECONDS", 0.0)
    asked: list[str] = []

    def lookup(name: str) -> resolving.Answer:
        asked.append(name)
        # Inner from the second question on: who asked again to connect would reach what it may not.
        return (ipaddress.ip_address("127.0.0.1" if len(asked) == 1 else "127.0.0.2"),)

    async def run() -> tuple[Attempt, Attempt, int]:
        async with (
            receivers.receiver(receivers.answering(OK)) as here,
            Sender(rules=LOOPBACK, resolver=Resolver(lookup)) as sender,
        ):
            url = here.url("hooks.example.com")
            first = await sender.send(_request(url))
            # The idle connection is to an address that the name has no more: it is not reused.
            return first, await sender.send(_request(url)), here.connections

    first, second, reached = asyncio.run(run())
    assert (first.failure, first.address) == (None, "127.0.0.1")
    assert (second.failure, reached) == (Failure.REFUSED, 1)
    assert len(asked) == 2


def test_the_second_address_of_a_name_is_tried_when_nobody_is_at_the_first() -> None:
    async def run() -> Attempt:
        both = tuple(ipaddress.ip_network(each) for each in ("127.0.0.1", "::1"))
        async with (
            receivers.receiver(receivers.answering(OK)) as here,
            Sender(
                rules=Rules(networks=both, plain_http=True),
                resolver=_resolver(["::1", "127.0.0.1"]),
            ) as sender,
        ):
            return await sender.send(_request(here.url("hooks.example.com")))

    attempt = asyncio.run(run())
    assert (attempt.failure, attempt.address) == (None, "127.0.0.1")


def test_a_name_that_nobody_knows_has_no_address() -> None:
    def unknown(name: str) -> resolving.Answer:
        raise resolving.Unresolved(name)

    async def run() -> Attempt:
        async with Sender(rules=LOOPBACK, resolver=Resolver(unknown)) as sender:
            return await sender.send(_request("http://hooks.example.com/"))

    attempt = asyncio.run(run())
    assert attempt.failure is Failure.UNRESOLVED
    assert attempt.message == "hooks.example.com has no address."


def test_names_whose_zone_is_dead_delay_no_name_that_answers() -> None:
    """More of them than there are threads: a name that answered before has threads of its own."""
    over = threading.Event()

    def lookup(name: str) -> resolving.Answer:
        if name.startswith("dead"):
            over.wait()
            raise resolving.Unresolved(name)
        return (ipaddress.ip_address("127.0.0.1"),)

    async def run() -> tuple[Attempt, Attempt]:
        resolver = Resolver(lookup)
        async with (
            receivers.receiver(receivers.answering(OK)) as here,
            Sender(rules=LOOPBACK, resolver=resolver, limits=Limits(lookup_seconds=0.3)) as sender,
        ):
            url = here.url("hooks.example.com")
            assert (await sender.send(_request(url))).failure is None
            resolver.forget_answers()
            dead = [
                asyncio.create_task(sender.send(_request(f"http://dead{number}.example.com/")))
                for number in range(3 * resolving.OTHER_THREADS)
            ]
            try:
                working = await sender.send(_request(url))
                return working, (await asyncio.gather(*dead))[-1]
            finally:
                over.set()

    working, dead = asyncio.run(run())
    assert working.failure is None
    assert (dead.failure, dead.message) == (
        Failure.TIMED_OUT,
        "Timed out while looking up the address.",
    )


# TLS


def _over_tls(
    directory: Path, url_host: str, *names: str, ca: bool = True
) -> tuple[Attempt, list[tuple[dict[str, str], bytes]]]:
    seen: list[tuple[dict[str, str], bytes]] = []
    server, client = receivers.certified(directory, *names, ca=ca)

    async def run() -> Attempt:
        async with (
            receivers.receiver(receivers.answering(OK, into=seen), tls=server) as here,
            Sender(rules=LOOPBACK, tls=client, resolver=_resolver(["127.0.0.1"])) as sender,
        ):
            return await sender.send(_request(here.url(url_host, scheme="https")))

    return asyncio.run(run()), seen


def test_a_certificate_for_the_name_lets_the_message_through(tmp_path: Path) -> None:
    attempt, seen = _over_tls(tmp_path, "hooks.example.com", "hooks.example.com")
    assert (attempt.failure, len(seen)) == (None, 1)
    assert seen[0][0]["host"].startswith("hooks.example.com:")


def test_a_certificate_for_another_name_gets_nothing(tmp_path: Path) -> None:
    attempt, seen = _over_tls(tmp_path, "hooks.example.com", "other.example.com")
    assert (attempt.failure, seen) == (Failure.TLS, [])
    assert "hooks.example.com" in attempt.message


def test_a_certificate_that_nobody_vouches_for_gets_nothing(tmp_path: Path) -> None:
    attempt, seen = _over_tls(tmp_path, "hooks.example.com", "hooks.example.com", ca=False)
    assert (attempt.failure, seen) == (Failure.TLS, [])


def test_two_names_at_one_address_share_no_connection(tmp_path: Path) -> None:
    """Each has to prove its own name; one connection would prove the first one's for both."""
    server, client = receivers.certified(tmp_path, "a.example.com")

    async def run() -> tuple[Attempt, Attempt]:
        async with (
            receivers.receiver(receivers.answering(OK), tls=server) as here,
            Sender(rules=LOOPBACK, tls=client, resolver=_resolver(["127.0.0.1"])) as sender,
        ):
            first = await sender.send(_request(here.url("a.example.com", scheme="https")))
            return first, await sender.send(_request(here.url("b.example.com", scheme="https")))

    first, second = asyncio.run(run())
    assert (first.failure, second.failure) == (None, Failure.TLS)


async def _speaks_no_tls(reader: Reader, writer: Writer) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()


@pytest.mark.parametrize(
    ("behaviour", "failure"),
    [(_hangs, Failure.TIMED_OUT), (_speaks_no_tls, Failure.TLS), (_closes_at_once, Failure.TLS)],
)
def test_a_handshake_that_comes_to_nothing_is_bounded(
    behaviour: Behaviour, failure: Failure
) -> None:
    async def run() -> Attempt:
        async with (
            receivers.receiver(behaviour) as here,
            Sender(rules=LOOPBACK, limits=SHORT) as sender,
        ):
            return await sender.send(_request(here.url(scheme="https")))

    attempt = asyncio.run(run())
    assert (attempt.failure, attempt.status) == (failure, None)


def test_who_speaks_only_http_2_is_told_so(tmp_path: Path) -> None:
    server, client = receivers.certified(tmp_path, "hooks.example.com")
    server.set_alpn_protocols(["h2"])
    settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"

    async def speaks_http_2(reader: Reader, writer: Writer) -> None:
        writer.write(settings)
        await writer.drain()
        await reader.read()

    async def run() -> Attempt:
        async with (
            receivers.receiver(speaks_http_2, tls=server) as here,
            Sender(rules=LOOPBACK, tls=client, resolver=_resolver(["127.0.0.1"])) as sender,
        ):
            return await sender.send(_request(here.url("hooks.example.com", scheme="https")))

    attempt = asyncio.run(run())
    assert attempt.failure is Failure.BROKEN
    assert "HTTP/1.1" in attempt.message
