"""What becomes of spot that gives way, and of spot that need not after all (R19).

One that has begun keeps its devices until the end of its notice, which is its end then; one that
has not goes back in line. Where the time behind an end that was moved forward is free again (who
wanted it was withdrawn, or moved elsewhere), the reservation gets it back, as far as it is free.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from bettercompute import clock, sql
from bettercompute.coordination.fencing import Fence
from bettercompute.pages import moments as instants
from bettercompute.states import AllocationState, ReservationState
from nodes import assignments
from pools import catalogue
from reservations import conditions, ending, lifecycle, queries
from reservations.conditions import Conditions, ConditionType
from reservations.extending import more_time
from reservations.lifecycle import Effects
from reservations.models import Allocation, Reservation

PREEMPTION = sql.load(__package__, "preemption")

SPARED_MAX = 100  # in one run; the rest with the next capacity that is freed


def announce(victim: Reservation, *, end: datetime, now: datetime, effects: Effects) -> None:
    """It ends earlier, and is told so; its bookings end there already."""
    lifecycle.amend(victim, {"ends_at": end, "conditions": _preempting(victim, end, now)})
    effects.event(victim, "preempting", end=clock.to_ms(end))
    effects.wake(lifecycle.KIND, victim.id)


def line_up(
    victim: Reservation, allocations: Sequence[Allocation], *, now: datetime, effects: Effects
) -> None:
    """It has not begun: its devices are others' already, and it is placed again like any other."""
    waiting = conditions.put(
        victim.conditions,
        ConditionType.UNSCHEDULABLE,
        reason="Preempted",
        message="A reservation that is not spot needs its devices; it is placed again by itself.",
        now_ms=clock.to_ms(now),
    )
    lifecycle.move(victim, ReservationState.PENDING, {"conditions": waiting})
    for allocation in allocations:
        lifecycle.move_allocation(
            allocation, AllocationState.RELEASED, {"ended_at": now, "reason": ending.PREEMPTED}
        )
    effects.event(victim, "pending", reason="Preempted")
    effects.wake(lifecycle.KIND, victim.id)
    effects.wake(lifecycle.POOL_KIND, victim.pool_id)


def spare(pool_id: str, fence: Fence) -> None:
    """Give time back to those of a pool that need not give way any more."""
    for (victim_id,) in PREEMPTION.all("giving_way", pool_id=pool_id, limit=SPARED_MAX):
        with fence():
            victim = queries.locked(victim_id)
            if victim is not None and _gives_way(victim, victim.read_at):
                _spare(victim, victim.read_at)


def _gives_way(victim: Reservation, now: datetime) -> bool:
    given = conditions.find(victim.conditions, ConditionType.PREEMPTING)
    return given is not None and victim.ends_at is not None and victim.ends_at > now


def _spare(victim: Reservation, now: datetime) -> None:
    """Its time back, up to the first booking of others behind its end; the commit decides (C9)."""
    assert victim.starts_at is not None
    assert victim.ends_at is not None
    catalogue.lock(victim.pool_id)
    allocations = ending.live_allocations(victim)
    full = victim.starts_at + timedelta(milliseconds=victim.duration_ms)
    end = min(full, more_time.bound(allocations, after=victim.ends_at) or full)
    if end <= victim.ends_at:
        return
    try:
        with transaction.atomic():
            more_time.book(allocations, start=victim.ends_at, end=end)
    except more_time.Taken:
        return  # somebody was faster
    known = conditions.clear(victim.conditions, ConditionType.PREEMPTING)
    still = known if end == full else _preempting(victim, end, now)
    lifecycle.amend(victim, {"ends_at": end, "conditions": still})
    assignments.prolong([allocation.id for allocation in allocations], until=end)
    effects = Effects()
    effects.event(victim, "spared", end=clock.to_ms(end))
    effects.wake(lifecycle.KIND, victim.id)
    effects.flush()


def _preempting(victim: Reservation, end: datetime, now: datetime) -> Conditions:
    return conditions.put(
        victim.conditions,
        ConditionType.PREEMPTING,
        reason="SpotGivesWay",
        message=f"It ends {instants.iso(end)}: a reservation that is not spot needs its devices.",
        now_ms=clock.to_ms(now),
    )
