"""`reserve --repeat` and `series list | get | cancel | skip` against a scripted server."""

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from bettercompute.cli.exits import Exit
from tests.support import answers
from tests.unit.cli.conftest import Run, Serve

pytestmark = [pytest.mark.rule("A8"), pytest.mark.case(20)]

POOLS = ("GET", "/pools")
MAIN = answers.answer({"items": [answers.pool()], "nextCursor": None})
RESERVE = ("reserve", "--pool", "main", "--gpus", "2", "--for", "2h")
MONDAY = "2026-03-09T15:00"  # in Berlin, as is this machine


def one(**changes: Any) -> dict[str, Any]:
    start = answers.NOW_MS + 24 * answers.HOUR_MS
    booked = {
        "start": start,
        "end": start + answers.HOUR_MS,
        "reservationId": "rsv_first",
        "state": "placed",
    }
    unbooked = {
        "start": start + 24 * answers.HOUR_MS,
        "end": start + 25 * answers.HOUR_MS,
        "reservationId": None,
        "state": None,
        "reason": "NoCapacity",
        "message": "1 node lacks 2 free GPUs (busy).",
    }
    return {
        "id": "ser_first",
        "tenantId": answers.TENANT_ID,
        "poolId": answers.pool()["id"],
        "ownerIdentityId": "usr_alice",
        "state": "active",
        "rule": "FREQ=WEEKLY;BYDAY=MO,WE;UNTIL=20270301",
        "timeZone": "Europe/Berlin",
        "request": {},
        "conditions": [],
        "nextStart": start,
        "unbooked": 1,
        "version": 3,
        "createdAt": answers.NOW_MS,
        "occurrences": [booked, unbooked],
        **changes,
    }


def test_words_become_a_rule_in_the_zone_of_the_machine(run: Run, serve: Serve) -> None:
    made = answers.answer(answers.reservation("placed", seriesId="ser_first"), 201)
    server = serve({POOLS: MAIN, ("POST", "/reservations"): made})
    result = run(*RESERVE, "--start", MONDAY, "--repeat", "weekly mon,wed until 2027-03-01")
    assert result.code == 0
    (sent,) = [each.body for each in server.received if each.method == "POST"]
    assert sent["recurrence"] == {
        "rule": "FREQ=WEEKLY;BYDAY=MO,WE;UNTIL=20270301",
        "timeZone": "Europe/Berlin",
    }
    assert "series get ser_first" in result.err
    assert "ser_first" in result.out


def test_the_start_is_read_in_the_zone_that_is_named(run: Run, serve: Serve) -> None:
    made = answers.answer(answers.reservation("placed", seriesId="ser_first"), 201)
    server = serve({POOLS: MAIN, ("POST", "/reservations"): made})
    starts = []
    for zone in ("Europe/Berlin", "America/New_York"):
        assert run(*RESERVE, "--start", MONDAY, "--repeat", "daily", "--time-zone", zone).code == 0
        body = server.received[-1].body
        assert body["recurrence"]["timeZone"] == zone
        starts.append(body["start"])
    # Clocks in New York have gone forward by then, those in Berlin not yet.
    assert starts[1] - starts[0] == 5 * answers.HOUR_MS


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--repeat", "daily"), "--start"),
        (("--start", MONDAY, "--time-zone", "Europe/Berlin"), "--repeat"),
        (("--start", MONDAY, "--repeat", "hourly"), "weekly mon, wed"),
        (("--start", MONDAY, "--repeat", "daily", "--time-zone", "CEST"), "Europe/Berlin"),
    ],
)
def test_what_cannot_repeat_is_said_before_anything_is_sent(
    run: Run, serve: Serve, options: tuple[str, ...], told: str
) -> None:
    server = serve({})
    result = run(*RESERVE, *options)
    assert result.code == Exit.USAGE
    assert told in result.err
    assert server.received == []


def test_a_series_is_shown_with_what_became_of_each(run: Run, serve: Serve) -> None:
    serve({POOLS: MAIN, ("GET", "/series/ser_first"): answers.answer(one())})
    result = run("series", "get", "ser_first")
    assert result.code == 0
    assert "weekly on Mon, Wed until 1 Mar 2027 (Europe/Berlin)" in result.out
    assert "unbooked" in result.out
    assert "1 node lacks 2 free GPUs (busy)." in result.out
    assert json.loads(run("series", "get", "ser_first", "--json").out)["unbooked"] == 1


def test_series_are_listed(run: Run, serve: Serve) -> None:
    listed = {name: value for name, value in one().items() if name != "occurrences"}
    page = answers.answer({"items": [listed], "nextCursor": None})
    server = serve({POOLS: MAIN, ("GET", "/series"): page})
    assert run("series", "list", "--all", "--output", "id").out == "ser_first\n"
    assert "scope=all" in server.received[0].path
    assert "weekly on Mon, Wed" in run("series", "list").out


def test_one_is_cancelled_from_an_occurrence_on_or_an_occurrence_skipped(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")  # of this machine, not of the series
    answer = answers.answer(one(state="cancelled"))
    server = serve(
        {
            POOLS: MAIN,
            ("GET", "/series/ser_first"): answer,
            ("POST", "/series/ser_first/cancel"): answer,
            ("POST", "/series/ser_first/skip"): answer,
        }
    )
    assert run("series", "cancel", "ser_first", "--from", MONDAY, "--release-running").code == 0
    assert run("series", "cancel", "ser_first").code == 0
    assert run("series", "skip", "ser_first", MONDAY).code == 0
    sent = [each.body for each in server.received if each.method == "POST"]
    at = sent[2]["occurrence"]
    tenant = {"tenantId": answers.TENANT_ID}
    assert sent == [
        {**tenant, "from": at, "releaseRunning": True},
        {**tenant, "releaseRunning": False},
        {**tenant, "occurrence": at},
    ]
    # By the clock of the series.
    local = datetime.fromtimestamp(at / 1_000, tz=ZoneInfo(one()["timeZone"]))
    assert f"{local:%Y-%m-%dT%H:%M}" == MONDAY


def test_a_preview_says_which_occurrences_would_not_be_booked(run: Run, serve: Serve) -> None:
    start = answers.NOW_MS + answers.HOUR_MS
    busy = {"filter": "busy", "needs": "2 free GPUs in the window", "nodes": 1, "samples": []}
    found = {
        "fits": False,
        "nodes": [],
        "quote": {"gpuHours": 4.0},
        "quotaAfter": [],
        "reasons": [busy],
        "occurrences": [
            {"start": start, "end": start + answers.HOUR_MS, "fits": True, "reasons": []},
            {"start": start, "end": start + answers.HOUR_MS, "fits": False, "reasons": [busy]},
        ],
    }
    serve({POOLS: MAIN, ("POST", "/capacity/preview"): answers.answer(found)})
    result = run(
        "capacity", "--preview", *RESERVE[1:], "--start", MONDAY, "--repeat", "daily 2 times"
    )
    assert result.code == Exit.NO_CAPACITY
    assert "1 of the next 2 occurrences would be booked." in result.out
    assert "busy: needs 2 free GPUs in the window" in result.out
