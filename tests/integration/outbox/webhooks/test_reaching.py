"""Whom a message reaches: the address that was judged, and who proves the name (A6, case 31)."""

import asyncio
import ipaddress
import json
import threading
from pathlib import Path

import pytest

from outbox.webhooks import resolving, rules, sending
from outbox.webhooks.addresses import Rules
from outbox.webhooks.resolving import Resolver
from outbox.webhooks.sending import Attempt, Failure, Sender
from tests.support import cast
from tests.support import hostile_receivers as receivers
from tests.support.hostile_receivers import (
    LOOPBACK,
    OK,
    Behaviour,
    Reader,
    Writer,
    closes_at_once,
    lets_time_pass,
    name_server,
)

pytestmark = [pytest.mark.rule("A6")]


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
            Sender(rules=Rules(plain_http=True), resolver=name_server(answer)) as sender,
        ):
            return await sender.send(here.message("hooks.example.com")), here.connections

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
        resolver = name_server(["8.8.8.8"], ["127.0.0.1"])
        async with (
            receivers.receiver(receivers.answering(OK)) as here,
            Sender(rules=rules, resolver=resolver) as sender,
        ):
            url = here.url("rebind.example.com")
            target = sending.addresses.parse(url, rules=rules)
            resolving.refuse_inner(target, rules=rules, resolver=resolver, seconds=5)
            return await sender.send(receivers.message(url)), here.connections

    attempt, reached = asyncio.run(run())
    assert (attempt.failure, reached) == (Failure.REFUSED, 0)


def test_a_name_within_is_refused_when_it_is_saved() -> None:
    rules = Rules()
    target = sending.addresses.parse("https://inner.example.com/", rules=rules)
    with pytest.raises(sending.Refused, match="not public"):
        resolving.refuse_inner(target, rules=rules, resolver=name_server(["10.0.0.1"]), seconds=5)

    def unknown(name: str) -> resolving.Answer:
        assert name == "inner.example.com."  # this machine's search list completes nothing
        raise resolving.Unresolved

    # One that nobody knows yet is judged when it is called.
    resolving.refuse_inner(target, rules=rules, resolver=Resolver(unknown), seconds=5)


@pytest.mark.django_db
@pytest.mark.case(31)
def test_rest_names_the_field_of_a_name_within(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_resolver", lambda: name_server(["10.0.0.1"]))
    alice = cast.api("alice")
    body = {"tenantId": cast.tenant().pk, "url": "https://inner.example.com/"}
    problem = cast.problem(alice.post("/webhooks", body), 400, "INVALID_INPUT")
    told = "inner.example.com has an address that is not public"
    assert problem["details"]["errors"] == [{"path": "url", "message": told}]
    # A new address is looked up, one that stays is not: what it resolves to is judged when called.
    monkeypatch.setattr(rules, "_resolver", lambda: name_server(["8.8.8.8"]))
    made = json.loads(alice.post("/webhooks", body).content)
    monkeypatch.setattr(rules, "_resolver", lambda: name_server(["10.0.0.1"]))
    here = f"/webhooks/{made['id']}"
    change = {"tenantId": cast.tenant().pk, "description": "mine"}
    assert alice.send("PATCH", here, change).status_code == 200
    change["url"] = "https://other.example.com/"
    cast.problem(alice.send("PATCH", here, change), 400, "INVALID_INPUT")


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
            first = await sender.send(receivers.message(url))
            # The idle connection is to an address that the name has no more: it is not reused.
            return first, await sender.send(receivers.message(url)), here.connections

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
                resolver=name_server(["::1", "127.0.0.1"]),
            ) as sender,
        ):
            return await sender.send(here.message("hooks.example.com"))

    attempt = asyncio.run(run())
    assert (attempt.failure, attempt.address) == (None, "127.0.0.1")


def test_a_name_that_nobody_knows_has_no_address() -> None:
    def unknown(name: str) -> resolving.Answer:
        raise resolving.Unresolved(name)

    async def run() -> Attempt:
        async with Sender(rules=LOOPBACK, resolver=Resolver(unknown)) as sender:
            return await sender.send(receivers.message("http://hooks.example.com/"))

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
            Sender(rules=LOOPBACK, resolver=resolver) as sender,
        ):
            url = here.url("hooks.example.com")
            assert (await sender.send(receivers.message(url))).failure is None
            resolver.forget_answers()
            dead = [
                asyncio.create_task(
                    sender.send(receivers.message(f"http://dead{number}.example.com/"))
                )
                for number in range(3 * resolving.OTHER_THREADS)
            ]
            await asyncio.sleep(0)  # each of them has asked
            try:
                working = await sender.send(receivers.message(url))
                await receivers.leap()
                return working, (await asyncio.gather(*dead))[-1]
            finally:
                over.set()

    working, dead = receivers.run(run())
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
            Sender(rules=LOOPBACK, tls=client, resolver=name_server(["127.0.0.1"])) as sender,
        ):
            return await sender.send(here.message(url_host, scheme="https"))

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
            Sender(rules=LOOPBACK, tls=client, resolver=name_server(["127.0.0.1"])) as sender,
        ):
            first = await sender.send(here.message("a.example.com", scheme="https"))
            return first, await sender.send(here.message("b.example.com", scheme="https"))

    first, second = asyncio.run(run())
    assert (first.failure, second.failure) == (None, Failure.TLS)


async def _speaks_no_tls(reader: Reader, writer: Writer) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()


@pytest.mark.parametrize(
    ("behaviour", "failure"),
    [
        (lets_time_pass, Failure.TIMED_OUT),
        (_speaks_no_tls, Failure.TLS),
        (closes_at_once, Failure.TLS),
    ],
)
def test_a_handshake_that_comes_to_nothing_is_bounded(
    behaviour: Behaviour, failure: Failure
) -> None:
    async def run() -> Attempt:
        async with (
            receivers.receiver(behaviour) as here,
            Sender(rules=LOOPBACK) as sender,
        ):
            return await sender.send(here.message(scheme="https"))

    attempt = receivers.run(run())
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
            Sender(rules=LOOPBACK, tls=client, resolver=name_server(["127.0.0.1"])) as sender,
        ):
            return await sender.send(here.message("hooks.example.com", scheme="https"))

    attempt = asyncio.run(run())
    assert attempt.failure is Failure.BROKEN
    assert "HTTP/1.1" in attempt.message
