"""`usage` and `budget`: what was used, and what is left."""

import json
from urllib.parse import parse_qsl, urlsplit

import pytest

from bettercompute.cli.exits import Exit
from tests.support import answers
from tests.support.wire_server import Received
from tests.unit.cli.conftest import Run, Serve

pytestmark = pytest.mark.rule("R39")

USAGE = ("GET", "/usage")
BUDGETS = ("GET", "/budgets")
POOLS = ("GET", "/pools")
MAIN = answers.answer({"items": [answers.pool()], "nextCursor": None})
DAY_MS = 24 * answers.HOUR_MS


def test_usage_of_the_last_days_by_what_is_asked(run: Run, serve: Serve) -> None:
    asked: list[list[tuple[str, str]]] = []

    def answer(received: Received) -> answers.Answer:
        asked.append(parse_qsl(urlsplit(received.path).query))
        row = {"day": "2026-03-01", "poolId": "pool_main", "ownerIdentityId": None}
        items = [{**row, "gpuHours": 1_234.56, "idleGpuHours": 0.25}]
        return answers.answer({"from": 1, "to": 2, "items": items})

    serve({USAGE: answer, POOLS: MAIN})
    result = run("usage", "--by", "pool,day", "--days", "7", "--pool", "main")
    assert result.out == (
        "DAY         POOL  GPU-HOURS  OF THEM IDLE\n2026-03-01  main  1,234.6    0.2\n"
    )
    now = answers.NOW_MS - answers.HOUR_MS
    assert [pair for pair in asked[0] if pair[0] != "tenantId"] == [
        ("poolId", "pool_main"),
        ("timeZone", "Europe/Berlin"),
        ("from", str(now - 7 * DAY_MS)),
        ("to", str(now)),
        ("by", "day"),
        ("by", "pool"),
    ]


def test_an_unknown_group_is_a_wrong_use_that_says_which_there_are(run: Run) -> None:
    result = run("usage", "--by", "week")
    assert result.code == Exit.USAGE
    assert "'week' is none of day, pool, owner" in result.err


def test_budgets_with_what_is_left(run: Run, serve: Serve) -> None:
    lab = {
        "id": "bud_1",
        "name": "lab",
        "poolId": None,
        "period": "month",
        "timeZone": "UTC",
        "during": {"start": answers.NOW_MS - DAY_MS, "end": answers.NOW_MS + DAY_MS},
        "gpuHours": 1_000.0,
        "used": 900.0,
        "reserved": 150.0,
        "left": -50.0,
    }
    here = {**lab, "id": "bud_2", "name": "here", "poolId": "pool_main", "left": 7.5}
    serve({BUDGETS: answers.answer({"items": [lab, here], "nextCursor": None}), POOLS: MAIN})
    lines = run("budget").out.splitlines()
    assert lines[0].split() == ["BUDGET", "OF", "WHEN", "USED", "RESERVED", "LEFT", "GPU-HOURS"]
    assert lines[1].split()[:3] == ["lab", "all", "pools"]
    assert lines[1].split()[-4:] == ["900.0", "150.0", "-50.0", "1,000.0"]
    assert lines[2].split()[:3] == ["here", "pool", "main"]
    assert json.loads(run("budget", "--json").out)["items"] == [lab, here]
    serve({BUDGETS: answers.answer({"items": [], "nextCursor": None}), POOLS: MAIN})
    assert run("budget").out == "No budget limits what your tenant reserves.\n"
