"""`capacity --offers` and `reserve --offer`."""

import json
from typing import Any

import pytest

from bettercompute.cli.exits import Exit
from tests.support import answers
from tests.unit.cli.conftest import Run, Serve

pytestmark = pytest.mark.rule("R21", "A8")

POOLS = ("GET", "/pools")
OFFERS = ("POST", "/capacity/offers")
CREATE = ("POST", "/reservations")
MAIN = answers.answer({"items": [answers.pool()], "nextCursor": None})
ASK = ("capacity", "--offers", "--pool", "main", "--gpus", "2", "--for", "2h")


def offer(number: int = 1, **changes: Any) -> dict[str, Any]:
    start = answers.NOW_MS + number * answers.HOUR_MS
    return {
        "id": f"cof_{number}",
        "kinds": ["soonest"],
        "why": "Starts soonest.",
        "during": {"start": start, "end": start + 2 * answers.HOUR_MS},
        "request": {"poolId": "pool_main", "devices": [{"class": "gpu", "count": 2}]},
        "nodes": [{"nodeId": "node_1", "name": "main-0", "deviceIds": ["GPU-1", "GPU-2"]}],
        "quote": {"gpuHours": 4.0, "price": None, "currency": None},
        "expiresAt": answers.NOW_MS + 60_000,
        **changes,
    }


def test_ranges_are_asked_for_and_offers_listed_with_how_to_take_one(
    run: Run, serve: Serve
) -> None:
    found = {"offers": [offer(1), offer(2, why="Costs least.")], "reasons": [], "earliest": None}
    server = serve({POOLS: MAIN, OFFERS: answers.answer(found)})
    latest = "2026-03-09T09:00+01:00"
    result = run(*ASK, "--for-up-to", "8h", "--start-by", latest)
    assert result.code == 0
    heading, first, second = result.out.splitlines()
    assert heading.split() == ["OFFER", "WHEN", "FOR", "DEVICES", "GPU-HOURS", "WHY"]
    assert first.startswith("cof_1")
    assert "2 GPUs" in first
    assert first.endswith("Starts soonest.")
    assert second.endswith("Costs least.")
    assert "better-compute reserve --offer cof_1" in result.err
    body = server.received[-1].body
    assert body["duration"] == {"min": "7200000ms", "max": 28_800_000}
    assert body["start"] == {"latest": 1_773_043_200_000}


def test_without_offers_it_says_why_and_exits_with_5(run: Run, serve: Serve) -> None:
    why = {"filter": "busy", "needs": "2 GPUs free", "nodes": 3, "samples": [], "until": None}
    found = {"offers": [], "reasons": [why], "earliest": None}
    serve({POOLS: MAIN, OFFERS: answers.answer(found)})
    result = run(*ASK, "--json")
    assert result.code == Exit.NO_CAPACITY
    assert json.loads(result.out)["reasons"][0]["filter"] == "busy"
    assert "3 nodes fail" in run(*ASK).out


@pytest.mark.parametrize(
    "arguments",
    [
        (*ASK, "--preview"),
        ("capacity", "--preview", *ASK[2:], "--for-up-to", "8h"),
        ("capacity", "--offers", "--pool", "main", "--gpus", "2"),
        ("reserve", "--offer", "cof_1", "--gpus", "2"),
        ("reserve", "--offer", "cof_1", "--spot"),
        ("reserve",),
    ],
)
def test_what_does_not_go_together_is_usage(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (Exit.USAGE, "")


def test_an_offer_is_taken_by_its_id_alone(run: Run, serve: Serve) -> None:
    server = serve({POOLS: MAIN, CREATE: answers.answer(answers.reservation(), status=201)})
    result = run("reserve", "--offer", "cof_1", "--key", "mine")
    assert result.code == 0
    (created,) = [each for each in server.received if each.body]
    assert created.body == {
        "tenantId": answers.TENANT_ID,
        "offerId": "cof_1",
        "idempotencyKey": "mine",
    }


def test_an_offer_that_is_gone_exits_with_5(run: Run, serve: Serve) -> None:
    told = answers.problem(409, "CONFLICT", "Somebody was faster.", reason="offer-gone")
    gone = answers.answer(told, status=409)
    serve({POOLS: MAIN, CREATE: gone})
    result = run("reserve", "--offer", "cof_1")
    assert result.code == Exit.NO_CAPACITY
    assert "Somebody was faster." in result.err
