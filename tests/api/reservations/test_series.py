"""REST of what repeats: reserved as its first occurrence, then looked at and ended as a series."""

import json
from typing import Any

import pytest

from bettercompute import clock as clocks
from pools.models import Pool
from reservations.models import Series
from tests.support import cast, make, repeating

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.case(20), pytest.mark.rule("A4")]

DAILY = {"rule": "FREQ=DAILY;COUNT=3", "timeZone": "Europe/Berlin"}


@pytest.fixture
def pool() -> Pool:
    return make.pool(gpus=1)


def body(pool: Pool, **changes: Any) -> dict[str, Any]:
    return {
        "tenantId": cast.tenant().pk,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": "1h",
        "start": "2026-03-03T15:00:00+01:00",
        "recurrence": DAILY,
        "idempotencyKey": "again-and-again",
        **changes,
    }


def test_a_create_answers_the_first_occurrence_and_its_series(pool: Pool) -> None:
    bob = cast.api("bob")
    created = bob.post("/reservations", body(pool))
    assert created.status_code == 201
    first = json.loads(created.content)
    assert first["state"] == "placed"
    assert first["occurrence"] == first["during"]["start"]
    assert first["request"]["recurrence"] == DAILY

    again = bob.post("/reservations", body(pool))
    assert (again.status_code, json.loads(again.content)["seriesId"]) == (200, first["seriesId"])

    repeating.look(first["seriesId"])
    shown = json.loads(bob.get(f"/series/{first['seriesId']}").content)
    assert [each["state"] for each in shown["occurrences"]] == ["placed"] * 3
    assert shown["occurrences"][0]["reservationId"] == first["id"]
    assert shown["nextStart"] == first["occurrence"]
    listed = bob.get(f"/reservations?seriesId={first['seriesId']}")
    assert len(json.loads(listed.content)["items"]) == 3


def test_an_unbooked_occurrence_says_why_and_has_no_reservation(pool: Pool) -> None:
    repeating.blocked(pool, "2026-03-04T15:00")
    series = repeating.opened(pool, DAILY["rule"])
    shown = json.loads(cast.api("carol").get(f"/series/{series.pk}").content)
    second = shown["occurrences"][1]
    assert (second["state"], second["reservationId"]) == (None, None)
    assert second["reason"] == "NoCapacity"
    assert "busy" in second["message"]
    assert shown["unbooked"] == 1


def test_pages_of_series_go_on_where_the_last_ended() -> None:
    pool = make.pool()
    made = [repeating.opened(pool, DAILY["rule"], run=False).pk for _ in range(3)]
    bob = cast.api("bob")
    page = json.loads(bob.get("/series?limit=2").content)
    rest = json.loads(bob.get(f"/series?limit=2&cursor={page['nextCursor']}").content)
    assert sorted(each["id"] for each in page["items"] + rest["items"]) == sorted(made)
    assert rest["nextCursor"] is None
    assert json.loads(cast.api("carol").get("/series").content)["items"] == []
    assert json.loads(bob.get("/series?state=cancelled").content)["items"] == []
    cast.problem(bob.get("/series?cursor=ser_x"), 400, "INVALID_INPUT")


def test_a_series_is_cut_and_cancelled_and_says_what_is_wrong(pool: Pool) -> None:
    series = repeating.opened(pool, DAILY["rule"])
    bob, tenant = cast.api("bob"), {"tenantId": cast.tenant().pk}
    path = f"/series/{series.pk}/cancel"
    for never in ("monday", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"):
        problem = cast.problem(bob.post(path, {**tenant, "from": never}), 400, "INVALID_INPUT")
        assert problem["details"]["errors"][0]["path"] == "from"
        skipped = bob.post(f"/series/{series.pk}/skip", {**tenant, "occurrence": never})
        problem = cast.problem(skipped, 400, "INVALID_INPUT")
        assert problem["details"]["errors"][0]["path"] == "occurrence"
    cast.problem(cast.api("carol").post(path, tenant), 403, "ACCESS_DENIED")

    cut = json.loads(bob.post(path, {**tenant, "from": "2026-03-04T15:00:00+01:00"}).content)
    assert cut["state"] == "active"
    assert cut["cutAt"] == clocks.to_ms(repeating.at("2026-03-04T15:00"))
    assert [each["state"] for each in cut["occurrences"]] == ["placed", "cancelled", "cancelled"]
    cancelled = json.loads(bob.post(path, tenant).content)
    assert (cancelled["state"], cancelled["nextStart"]) == ("cancelled", None)
    assert Series.objects.get().state == "cancelled"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"recurrence": {**DAILY, "rule": "FREQ=HOURLY"}}, "recurrence.rule"),
        ({"recurrence": {**DAILY, "timeZone": "CEST"}}, "recurrence.timeZone"),
        ({"recurrence": {**DAILY, "exdate": "20260304"}}, "recurrence.exdate"),
        ({"start": None}, "start"),
        ({"leaseSeconds": 600}, "leaseSeconds"),
    ],
)
def test_what_is_wrong_is_named_by_create_and_preview(
    pool: Pool, changes: dict[str, Any], path: str
) -> None:
    bob = cast.api("bob")
    for route in ("/reservations", "/capacity/preview"):
        problem = cast.problem(bob.post(route, body(pool, **changes)), 400, "INVALID_INPUT")
        assert [each["path"] for each in problem["details"]["errors"]] == [path], route
    assert not Series.objects.exists()
