"""What reservations had, metered from bookings (R39)."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from bettercompute import clock as clocks
from bettercompute import errors
from nodes.models import Assignment, ReportedState
from reservations import ending, usage
from reservations.extending import extension
from tests.support import cast, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R39")]

BERLIN = ZoneInfo("Europe/Berlin")


def metered(who: str = "alice", **how: Any) -> list[usage.Row]:
    now = clocks.now()
    wanted = {"start": now - timedelta(days=2), "end": now + timedelta(days=2), "zone": BERLIN}
    return usage.metered(cast.caller(who), **{**wanted, **how})


def hours(row: usage.Row) -> tuple[float, float]:
    return row.gpu_milli_hours / 1_000, row.idle_gpu_milli_hours / 1_000


def test_time_counts_as_it_passes_and_idle_until_it_is_bound(clock):
    alice, pool = cast.caller("alice"), make.pool()
    reservation = make.look(make.reservation(alice, pool, gpus=4, duration="8h"))
    clock.advance("1h")
    assert [hours(row) for row in metered()] == [(4, 4)]
    make.report(reservation, ReportedState.BOUND)
    make.look(reservation)
    clock.advance("2h")
    assert [hours(row) for row in metered()] == [(12, 4)]
    clock.advance("24h")
    assert [hours(row) for row in metered()] == [(32, 4)]


def test_a_release_ends_it_although_the_node_still_holds_the_devices(clock):
    alice = cast.caller("alice")
    reservation = make.active(alice, make.pool(), gpus=2, duration="8h")
    clock.advance("90m")
    ending.release(alice, reservation_id=reservation.pk)
    clock.advance("1h")
    assert [hours(row) for row in metered()] == [(3, 0)]


def test_what_never_began_or_has_yet_to_begin_is_not_metered(clock):
    alice, pool = cast.caller("alice"), make.pool()
    later = clock.now_ms() + 7_200_000
    cancelled = make.reservation(alice, pool, start=later)
    make.reservation(alice, pool, start=later)
    ending.cancel(alice, reservation_id=cancelled.pk)
    assert metered() == []


def test_an_extension_is_metered_with_the_rest(clock):
    alice = cast.caller("alice")
    reservation = make.active(alice, make.pool(), duration="1h")
    wanted = extension.ExtendRequest(tenant_id=alice.tenant_id, by="1h")
    extension.extend(alice, wanted, reservation_id=reservation.pk, idempotency_key="longer")
    clock.advance("24h")
    assert [hours(row) for row in metered()] == [(2, 0)]


def test_by_day_pool_and_owner(clock):
    alice, bob = cast.caller("alice"), cast.caller("bob")
    here, there = make.pool(), make.pool()
    clock.set(datetime(2026, 3, 28, 22, 0, tzinfo=UTC))  # 23:00 in Berlin, clocks change at 02:00
    make.active(alice, here, duration="26h")
    make.active(bob, there, gpus=2, duration="1h")
    clock.advance("48h")
    rows = metered(by=("day", "pool", "owner"))
    assert [(row.day, row.pool_id, row.owner_id, hours(row)[0]) for row in rows] == sorted(
        [
            (date(2026, 3, 28), here.pk, alice.account_id, 1.0),
            (date(2026, 3, 28), there.pk, bob.account_id, 2.0),
            (date(2026, 3, 29), here.pk, alice.account_id, 23.0),  # the short day
            (date(2026, 3, 30), here.pk, alice.account_id, 2.0),
        ]
    )
    assert [hours(row)[0] for row in metered(by=("owner",))] == [26.0, 2.0]
    assert [hours(row)[0] for row in metered(pool_id=there.pk)] == [2.0]


def test_another_tenants_time_is_not_ours(clock):
    make.active(cast.caller("alice"), make.pool(), duration="1h")
    clock.advance("1h")
    assert metered("mallory") == []


def test_a_span_that_is_none_is_refused(clock):
    now = clock.now()
    for end in (now, now - timedelta(hours=1), now + timedelta(days=401)):
        with pytest.raises(errors.InvalidInput):
            metered(start=now, end=end)


def test_over_rest(clock):
    make.active(cast.caller("alice"), make.pool(), gpus=2, duration="1h")
    clock.advance("30m")
    now = clock.now_ms()
    api = cast.api("alice")
    answer = api.get(f"/usage?from={now - 3_600_000}&to={now}&by=day&by=pool&timeZone=Asia/Tokyo")
    (item,) = answer.json()["items"]
    assert item["day"] == "2026-03-02"
    assert item["gpuHours"] == 1.0
    assert item["ownerIdentityId"] is None
    assert item["owner"] is None
    by_owner = api.get(f"/usage?from={now - 3_600_000}&to={now}&by=owner").json()["items"]
    assert [(each["ownerIdentityId"], each["owner"]) for each in by_owner] == [
        (cast.account("alice").pk, "alice")
    ]
    listed = api.get(f"/usage?from={now - 3_600_000}&to={now}&by=day,pool&timeZone=Asia/Tokyo")
    assert listed.json() == answer.json()
    wrong = cast.problem(api.get("/usage?from=1&to=2&by=day,week"), 400, "INVALID_INPUT")
    (error,) = wrong["details"]["errors"]
    assert error["path"] == "by"
    assert error["message"].startswith("week is unknown; give any of day, pool, owner")
    for query in (
        "",
        f"?from={now}&to={now}",
        "?from=1&to=2&by=week",
        "?from=1&to=2&timeZone=Mars",
    ):
        cast.problem(api.get(f"/usage{query}"), 400, "INVALID_INPUT")


def test_a_gang_placed_again_is_metered_whole_from_its_new_start(clock):
    """One of its parts was bound and one failed: what the bound one had is before its window."""
    alice = cast.caller("alice")
    placed = make.reservation(alice, make.pool(nodes=3, gpus=1), gang={"nodes": 2}, duration="2h")
    reservation = make.look(placed)
    clock.advance("5m")
    for assignment, said in zip(
        Assignment.objects.filter(owner_key=reservation.pk), ("bound", "failed"), strict=True
    ):
        assignment.reported, assignment.reported_at = said, clocks.now()
        assignment.report = {"cdiDevices": ["bcd.dev/gpu=0"], "envFile": "/run/bcd/a.env"}
        assignment.save()
    reservation = make.look(reservation)
    assert (reservation.state, reservation.placements_failed) == ("binding", 1)
    clock.advance("1h")
    assert [hours(row) for row in metered()] == [(2, 2)]
