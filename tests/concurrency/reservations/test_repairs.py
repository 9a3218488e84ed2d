"""Repairs that meet each other, and a start that comes while one is planned (R18)."""

import threading
from contextlib import suppress
from typing import Any

import pytest

from bettercompute import clock as clocks
from bettercompute import failpoints
from bettercompute.failpoints import Failpoint
from nodes import eligibility
from nodes.models import DeviceBooking
from pools.models import Pool
from reservations.lifecycle import Effects
from reservations.models import Reservation
from reservations.upkeep import repair
from tests.support import cast, invariants, make, races, sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R18")]

HOUR_MS = 3_600_000
MEET_SECONDS = 1.0


def ahead(pool: Pool, **changes: Any) -> Reservation:
    """A reservation that starts in an hour."""
    start = clocks.now_ms() + HOUR_MS
    made = make.reservation(cast.caller("alice"), pool, start=start, **changes)
    assert made.state == "placed"
    return made


def host_of(reservation: Reservation) -> str:
    return reservation.allocations.get().node_id


def mend(reservation: Reservation) -> bool:
    return repair.try_repair(reservation.pk, make.fence, Effects())


@pytest.mark.rule("C19")
def test_two_that_swap_their_hosts_do_not_deadlock(clock):
    """Each books resources of the other's host before it gives back those of its own."""
    pool = make.pool(nodes=1, gpus=2)
    first = ahead(pool, resources={"vcpu": 8})
    eligibility.cordon(host_of(first))
    make.node(pool, gpus=2)
    second = ahead(pool, resources={"vcpu": 8})
    eligibility.uncordon(host_of(first))
    for reservation in (first, second):
        eligibility.quarantine_all(reservation.allocations.get().device_ids, reason="xid 79")
    clock.advance("50m")
    deadlocks = races.deadlocks()
    gate = threading.Barrier(2)

    def meet() -> None:
        with suppress(threading.BrokenBarrierError):  # whoever waits for a lock does not come
            gate.wait(MEET_SECONDS)

    failpoints.arm(Failpoint.PLACEMENT_BOOKED, meet)
    try:
        outcome = sessions.race(lambda: mend(first), lambda: mend(second))
    finally:
        failpoints.disarm()

    assert outcome == [True, True]
    assert races.deadlocks() == deadlocks
    assert invariants.violations() == []


def test_a_start_that_comes_while_it_is_planned_keeps_its_window(clock, monkeypatch):
    reservation = ahead(make.pool(nodes=2, gpus=1))
    eligibility.cordon(host_of(reservation))
    clock.advance("59m")
    plan = repair._plan

    def slowly(one: Reservation) -> object:
        found = plan(one)
        clock.advance("2m")
        return found

    monkeypatch.setattr(repair, "_plan", slowly)
    assert not mend(reservation)
    (booking,) = DeviceBooking.objects.all()
    assert (booking.during.lower, booking.during.upper) == (
        reservation.starts_at,
        reservation.ends_at,
    )
    assert invariants.violations() == []
