"""Starting sooner: whoever waits for spot to give way need not wait for the notice to pass (R19).

A victim may end by itself before its notice does. Once its nodes have let go, the time up to the
planned start is booked too, where it is free, and the whole window moves forward.
"""

from datetime import timedelta

from django.db import transaction

from bettercompute import clock, sql
from bettercompute.coordination.fencing import Fence
from bettercompute.states import ReservationState
from nodes import assignments, bookings, resources
from pools import catalogue
from reservations import conditions, ending, lifecycle, queries
from reservations.conditions import ConditionType
from reservations.extending import more_time
from reservations.lifecycle import Effects
from reservations.models import Reservation

PREEMPTION = sql.load(__package__, "preemption")

LOOKED_AT_MAX = 100


def try_all(pool_id: str, fence: Fence) -> None:
    """Let those of a pool start now that could, and did not ask for a later start."""
    for (reservation_id,) in PREEMPTION.all("awaiting", pool_id=pool_id, limit=LOOKED_AT_MAX):
        with fence():
            reservation = queries.locked(reservation_id)
            if reservation is not None and _could_start(reservation):
                _start_now(reservation)


def _could_start(reservation: Reservation) -> bool:
    if reservation.state != ReservationState.PLACED or reservation.starts_at is None:
        return False
    now, asked = reservation.read_at, reservation.requested_start
    waits = conditions.find(reservation.conditions, ConditionType.AWAITING_PREEMPTION)
    return waits is not None and now < reservation.starts_at and (asked is None or asked <= now)


def _start_now(reservation: Reservation) -> None:
    """Book the time before its start, and give up as much at its end; the commit decides (C9)."""
    assert reservation.starts_at is not None
    start = clock.whole(reservation.read_at)
    end = start + timedelta(milliseconds=reservation.duration_ms)
    catalogue.lock(reservation.pool_id)
    allocations = ending.live_allocations(reservation)
    try:
        with transaction.atomic():
            more_time.book(allocations, start=start, end=reservation.starts_at)
    except more_time.Taken:
        return
    allocation_ids = [allocation.id for allocation in allocations]
    bookings.truncate(allocation_ids, at=end)
    resources.free(allocation_ids, at=end)
    assignments.prolong(allocation_ids, until=end)
    begun = conditions.clear(reservation.conditions, ConditionType.AWAITING_PREEMPTION)
    lifecycle.amend(reservation, {"starts_at": start, "ends_at": end, "conditions": begun})
    effects = Effects()
    effects.event(
        reservation,
        "placed",
        nodeIds=sorted({allocation.node_id for allocation in allocations}),
        start=clock.to_ms(start),
        end=clock.to_ms(end),
    )
    effects.wake(lifecycle.KIND, reservation.id)
    effects.wake(lifecycle.POOL_KIND, reservation.pool_id)  # it ends sooner as well
    effects.flush()
