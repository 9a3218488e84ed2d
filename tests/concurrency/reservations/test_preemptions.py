"""Preemption that meets others: two for one victim, and a victim that acts by itself (R19)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from bettercompute import failpoints
from bettercompute.failpoints import Failpoint
from bettercompute.wire.reservations import ExtendRequest
from nodes.models import DeviceBooking
from outbox.models import Event
from pools.models import Pool
from reservations import ending, renewal
from reservations.extending import extension
from reservations.models import Reservation
from tests.support import cast, invariants, make, races, sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R19", "C9")]


def now_of(reservation: Reservation) -> Reservation:
    return Reservation.objects.get(pk=reservation.pk)


def spot(pool: Pool, **changes: Any) -> Reservation:
    return make.active(cast.caller("bob"), pool, spot=True, duration="4h", **changes)


def ask(pool: Pool, who: str = "alice", **changes: Any) -> str:
    """The state it is answered in."""
    return make.reservation(cast.caller(who), pool, duration="1h", **changes).state


def meanwhile(action: Callable[[], Any]) -> None:
    """Once who would give way is known, and before any of it is locked."""

    def act() -> None:
        failpoints.disarm()
        sessions.race(action)

    failpoints.arm(Failpoint.PREEMPTION_CHOSEN, act)


def booked(reservation: Reservation) -> list[timedelta]:
    """How long after its start each of its bookings ends."""
    ids = reservation.allocations.values_list("pk", flat=True)
    rows = DeviceBooking.objects.filter(allocation_id__in=list(ids))
    return [row.during.upper - reservation.starts_at for row in rows]


def test_of_two_that_need_the_same_victim_one_gets_its_devices(clock):
    deadlocks = races.deadlocks()
    pool = make.pool(gpus=1)
    victim = spot(pool)
    with races.meeting_at(Failpoint.PREEMPTION_CHOSEN, parties=2):
        outcome = sessions.race(lambda: ask(pool), lambda: ask(pool, "carol"))
    assert sorted(outcome) == ["pending", "placed"]
    placed = Reservation.objects.get(state="placed")
    assert now_of(victim).ends_at == placed.starts_at
    assert races.deadlocks() == deadlocks
    assert invariants.violations() == []


def test_two_that_need_several_each_get_different_ones(clock):
    deadlocks = races.deadlocks()
    pool = make.pool(nodes=2, gpus=2)
    for _ in range(4):
        spot(pool)
    with races.meeting_at(Failpoint.PREEMPTION_CHOSEN, parties=2):
        outcome = sessions.race(lambda: ask(pool, gpus=2), lambda: ask(pool, "carol", gpus=2))
    assert outcome == ["placed", "placed"]
    assert {each.conditions[0]["type"] for each in Reservation.objects.filter(spot=True)} == {
        "Preempting"
    }
    assert races.deadlocks() == deadlocks
    assert invariants.violations() == []


def test_a_victim_that_is_released_meanwhile_is_not_needed(clock):
    pool = make.pool(gpus=1)
    victim = spot(pool)
    meanwhile(lambda: ending.release(cast.caller("bob"), reservation_id=victim.pk))
    assert ask(pool) == "pending", "until the node has let go, and then at once"
    assert now_of(victim).reason == "release"
    assert invariants.violations() == []


def test_one_that_has_ended_meanwhile_is_not_told_to_end(clock):
    pool = make.pool(gpus=1)
    bob = cast.caller("bob")
    victim = make.look(make.reservation(bob, pool, spot=True, duration="4h"))
    assert victim.state == "binding", "so its devices are free at once"
    meanwhile(lambda: ending.release(bob, reservation_id=victim.pk))
    ask(pool)
    ended = now_of(victim)
    assert (ended.reason, ended.conditions) == ("release", [])
    assert ended.ends_at == clock.now()
    assert not Event.objects.filter(type="reservation.preempting").exists()
    assert invariants.violations() == []


def test_one_that_begins_meanwhile_has_its_notice_and_its_guaranteed_time(clock):
    pool = make.pool(gpus=1, spot={"minRunSeconds": 3_600})
    start = clock.now_ms() + 60_000
    victim = make.reservation(cast.caller("bob"), pool, spot=True, start=start, duration="4h")
    meanwhile(lambda: clock.advance("61s"))
    assert ask(pool) == "pending", "a minute ago it would have gone back in line"
    assert now_of(victim).ends_at == victim.ends_at
    assert make.look(now_of(victim)).state == "binding"
    assert invariants.violations() == []


def test_a_victim_that_extends_meanwhile_gives_way_all_the_same(clock):
    pool = make.pool(gpus=1)
    victim = spot(pool)
    bob = cast.caller("bob")
    meanwhile(
        lambda: extension.extend(
            bob,
            ExtendRequest(tenant_id=bob.tenant_id, by="1h"),
            reservation_id=victim.pk,
            idempotency_key="longer",
        )
    )
    assert ask(pool) == "placed"
    victim = now_of(victim)
    assert victim.duration_ms == 5 * 3_600_000
    assert booked(victim) == [victim.ends_at - victim.starts_at]
    assert invariants.violations() == []

    ending.cancel(cast.caller("alice"), reservation_id=Reservation.objects.get(state="placed").pk)
    make.look_at_pool(pool)
    victim = now_of(victim)
    assert victim.ends_at - victim.starts_at == timedelta(hours=5), "what it extended to as well"
    assert invariants.violations() == []


def test_a_victim_that_renews_its_lease_meanwhile_keeps_both(clock):
    pool = make.pool(gpus=1)
    victim = spot(pool, leaseSeconds=600)
    clock.advance("1m")
    meanwhile(lambda: renewal.renew(cast.caller("bob"), reservation_id=victim.pk))
    assert ask(pool) == "placed"
    again = now_of(victim)
    assert again.lease_until - victim.lease_until == timedelta(minutes=1)
    assert again.ends_at < victim.ends_at


def test_an_end_that_is_extended_while_others_take_it_is_not_moved(clock):
    pool = make.pool(gpus=1)
    victim = spot(pool)
    bob = cast.caller("bob")

    def take_it() -> None:
        failpoints.disarm()
        assert sessions.race(lambda: ask(pool)) == ["placed"]

    failpoints.arm(Failpoint.EXTENSION_STAGED, take_it)
    made = extension.extend(
        bob,
        ExtendRequest(tenant_id=bob.tenant_id, by="1h"),
        reservation_id=victim.pk,
        idempotency_key="longer",
    )
    placed = Reservation.objects.get(state="placed")
    assert (made.extended, made.available_until) == (False, placed.starts_at)
    assert invariants.violations() == []


def test_a_create_of_the_same_devices_and_a_preemption_never_both_have_them(clock):
    deadlocks = races.deadlocks()
    pool = make.pool(gpus=2)
    spot(pool)
    later = clock.now_ms() + 600_000
    with races.meeting_at(Failpoint.PLACEMENT_PLANNED, parties=2):
        outcome = sessions.race(
            lambda: ask(pool, gpus=2),
            lambda: ask(pool, "carol", start=later, spot=True),
        )
    assert outcome[0] == "placed"
    assert outcome[1] in ("pending", "placed")
    assert Reservation.objects.filter(state="placed", spot=False).count() == 1
    assert races.deadlocks() == deadlocks
    assert invariants.violations() == []
