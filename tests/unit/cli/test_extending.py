"""`extend` and `renew` against a scripted server."""

import json
import re
from typing import Any

import pytest

from bettercompute.cli.exits import Exit
from bettercompute.client.calls import Answer
from tests.support import answers
from tests.unit.cli.conftest import Run, Serve

pytestmark = pytest.mark.rule("A8", "R33")

POOLS = ("GET", "/pools")
EXTEND = ("POST", "/reservations/rsv_first/extend")
EXTENSION = ("GET", "/reservations/rsv_first/extension")
RENEW = ("POST", "/reservations/rsv_first/renew")
MAIN = answers.answer({"items": [answers.pool()], "nextCursor": None})


def extended(extended: bool = True, **changes: Any) -> Answer:
    document = {"reservation": answers.reservation("active"), "extended": extended, **changes}
    return answers.answer(document)


def test_by_a_duration_with_a_key_of_its_own(run: Run, serve: Serve) -> None:
    server = serve({POOLS: MAIN, EXTEND: extended()})
    result = run("extend", "rsv_first", "--by", "4h")
    assert result.code == Exit.OK
    assert result.out.startswith("Extended.\nrsv_first  active\n")
    body = dict(server.received[0].body)
    assert len(body.pop("idempotencyKey")) == 32
    assert body == {"tenantId": answers.TENANT_ID, "by": 4 * answers.HOUR_MS}


@pytest.mark.parametrize(
    "until", ["tomorrow 09:00", "+24h", "in 24 h", "2026-03-03T09:00:00+01:00"]
)
def test_until_a_moment_in_the_machines_zone(run: Run, serve: Serve, until: str) -> None:
    server = serve({POOLS: MAIN, EXTEND: extended()})
    assert run("extend", "rsv_first", "--until", until, "--key", "mine").code == Exit.OK
    assert server.received[0].body == {
        "tenantId": answers.TENANT_ID,
        "until": answers.NOW_MS + 23 * answers.HOUR_MS,  # it is 08:00 UTC, 09:00 in Berlin
        "idempotencyKey": "mine",
    }


def test_an_interrupt_says_how_to_find_what_may_have_been_extended(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bettercompute.client.blocking.time.sleep", interrupt)
    server = serve({EXTEND: answers.refusal(503, "UNAVAILABLE")})
    result = run("extend", "rsv_first", "--by", "4h")
    assert result.code == Exit.INTERRUPTED
    assert f"--key {server.received[-1].body['idempotencyKey']}" in result.err


def test_a_key_that_no_server_takes_is_refused_before_anything_is_sent(
    run: Run, serve: Serve
) -> None:
    server = serve({})
    assert run("extend", "rsv_first", "--by", "4h", "--key", "k" * 256).code == Exit.USAGE
    assert server.received == []


def test_where_others_come_next_it_says_so_and_exits_with_no_capacity(
    run: Run, serve: Serve
) -> None:
    until = answers.NOW_MS + 10 * answers.HOUR_MS
    serve({POOLS: MAIN, EXTEND: extended(extended=False, availableUntil=until)})
    result = run("extend", "rsv_first", "--by", "4h")
    assert result.code == Exit.NO_CAPACITY
    assert result.out.startswith("Not extended: it could go until today 20:00, then others come.")
    assert json.loads(run("extend", "rsv_first", "--by", "4h", "--json").out)["extended"] is False


def test_an_end_that_is_reached_already_is_no_error(run: Run, serve: Serve) -> None:
    serve({POOLS: MAIN, EXTEND: extended(extended=False)})
    result = run("extend", "rsv_first", "--by", "1h")
    assert result.code == Exit.OK
    assert result.out.startswith("Not extended: it goes on that long already.")


@pytest.mark.rule("R22")
@pytest.mark.parametrize(
    ("until", "told"),
    [
        (None, "Nothing that is booked bounds it.\n"),
        (answers.NOW_MS + answers.HOUR_MS, "It could go until today 11:00, then others come.\n"),
    ],
)
def test_without_more_it_says_until_when(
    run: Run, serve: Serve, until: int | None, told: str
) -> None:
    serve({EXTENSION: answers.answer({"availableUntil": until})})
    assert run("extend", "rsv_first").out == told


@pytest.mark.parametrize(
    "arguments",
    [("--by", "1h", "--until", "tomorrow 09:00"), ("--by", "soon"), ("--until", "whenever")],
)
def test_what_is_no_later_end_is_a_mistake_of_usage(
    run: Run, serve: Serve, arguments: tuple[str, ...]
) -> None:
    server = serve({})
    assert run("extend", "rsv_first", *arguments).code == Exit.USAGE
    assert server.received == []


@pytest.mark.rule("R32")
def test_renewing_prints_what_goes_on(run: Run, serve: Serve) -> None:
    serve({POOLS: MAIN, RENEW: answers.answer(answers.reservation("active"))})
    result = run("renew", "rsv_first")
    assert result.code == Exit.OK
    assert result.out.startswith("rsv_first  active\n")
    assert "Lease" not in result.out


def test_what_is_renewed_says_until_when(run: Run, serve: Serve) -> None:
    until = answers.NOW_MS + answers.HOUR_MS
    serve({POOLS: MAIN, RENEW: answers.answer(answers.reservation("active", leaseUntil=until))})
    assert re.search(r"Lease +lapses .+ unless it is renewed\n", run("renew", "rsv_first").out)


def test_what_has_ended_has_no_lease_to_lapse(run: Run, serve: Serve) -> None:
    ended = answers.reservation("released", leaseUntil=answers.NOW_MS)
    serve({POOLS: MAIN, ("GET", "/reservations/rsv_first"): answers.answer(ended)})
    assert "lapses" not in run("get", "rsv_first").out
