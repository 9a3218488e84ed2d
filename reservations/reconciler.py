"""Driving one reservation from placed to its end (R24, R26, R35).

Level-triggered: it reads the row, computes what is due, and applies that in one fenced transaction;
a second run changes nothing. What is overdue runs at once, ends before starts, so a control plane
that was down for a whole window takes the reservation straight to its end.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, assert_never

from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.runner import At, Done, Outcome
from bettercompute.states import ReservationState
from pools import catalogue, quota
from pools.catalogue import PoolAccess
from reservations import conditions, ending, lifecycle, moments, outages, outcomes, queries
from reservations.bindings import hold
from reservations.conditions import ConditionType
from reservations.confirming import creating
from reservations.lifecycle import Effects
from reservations.models import Reservation
from reservations.moments import Schedule
from reservations.placing import estimates, pending
from reservations.upkeep import degradation, no_show, ownership, repair, settling

# What somebody still has to answer for.
_OWNED = {
    ReservationState.AWAITING_CONFIRMATION,
    ReservationState.PENDING,
    ReservationState.PLACED,
    ReservationState.BINDING,
    ReservationState.ACTIVE,
}


def reconcile(key: str, fence: Fence) -> Outcome:
    """Look at one reservation and do what is due; answers when to look again."""
    outages.make_up(fence)
    pending.try_place(key, fence, Effects(own_key=key))
    repair.try_repair(key, fence, Effects(own_key=key))
    with fence():
        reservation = queries.locked(key)
        if reservation is None:
            return Done()
        before = reservation.state
        effects = Effects(own_key=key)
        no_show_at = _step(reservation, reservation.read_at, effects)
        if reservation.state in _OWNED:
            ownership.refresh(reservation, reservation.read_at)
        effects.flush()
    if reservation.state != before:
        return At(reservation.read_at)  # what the new state asks for is due at once
    if reservation.state == ReservationState.PENDING:
        estimates.refresh(reservation, fence)
    return _next(reservation, no_show_at)


def _step(reservation: Reservation, now: datetime, effects: Effects) -> datetime | None:
    """Do what is due in this state; answers when a no-show would be judged."""
    state = ReservationState(reservation.state)
    match state:
        case ReservationState.DRAFT:
            _expire_draft(reservation, now)
        case ReservationState.AWAITING_CONFIRMATION:
            _expire_confirmation(reservation, now, effects)
        case ReservationState.PENDING:
            _expire_pending(reservation, now, effects)
        case ReservationState.PLACED | ReservationState.BINDING | ReservationState.ACTIVE:
            return _drive(reservation, now, effects)
        case (
            ReservationState.RELEASED
            | ReservationState.FAILED
            | ReservationState.CANCELLED
            | ReservationState.EXPIRED
            | ReservationState.DENIED
        ):
            settling.settle(reservation, now)
        case _:
            assert_never(state)
    return None


def _drive(reservation: Reservation, now: datetime, effects: Effects) -> datetime | None:
    """Ends come before starts (R24): what is over is released, whatever else is due."""
    if reservation.ends_at is not None and reservation.ends_at <= now:
        ending.end(reservation, reason=_why_it_ends(reservation), effects=effects)
    elif _lease_lapsed(reservation, now):
        ending.end(reservation, reason="lease-lapsed", effects=effects)
    elif no_show.is_over(reservation, now):
        ending.end(reservation, reason=no_show.REASON, effects=effects)
    if reservation.state == ReservationState.PLACED:
        degradation.foresee(reservation, now, effects)
        hold.begin(reservation, now, effects)
    if reservation.state == ReservationState.BINDING:
        hold.advance(reservation, now, effects)
    if reservation.state == ReservationState.ACTIVE:
        _charge_what_it_took(reservation)
        degradation.refresh(reservation, now, effects)
        return no_show.warn(reservation, now, effects)
    return None


def _why_it_ends(reservation: Reservation) -> str:
    """An end that was moved forward for others is theirs, not its own (R19)."""
    given = conditions.find(reservation.conditions, ConditionType.PREEMPTING)
    return "expired" if given is None else ending.PREEMPTED


def _lease_lapsed(reservation: Reservation, now: datetime) -> bool:
    """Whether its holder let the lease pass, which an outage of ours is not (C38)."""
    deadline = reservation.lease_until
    if deadline is None or deadline > now:
        return False
    return outages.judging().lapsed(deadline, now)


def _charge_what_it_took(reservation: Reservation) -> None:
    """A count range is charged at its most; what it did not take goes back once it is active.

    Not before: until then it may be placed again, and take more.
    """
    if any(isinstance(line.get("count"), dict) for line in _lines(reservation.request)):
        quota.lower(reservation.id, {quota.GPU_MILLI: reservation.gpu_milli})


def _lines(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for entry in request["devices"]:
        yield from entry.get("anyOf", [entry])


def _expire_draft(reservation: Reservation, now: datetime) -> None:
    if reservation.series_id is not None:
        return  # an occurrence yet to be booked: its series knows when that is over
    if reservation.created_at + moments.DRAFT_LIFETIME <= now:
        lifecycle.move(reservation, ReservationState.EXPIRED, {"ended_at": now})


def _expire_confirmation(reservation: Reservation, now: datetime, effects: Effects) -> None:
    if reservation.confirm_until is not None and reservation.confirm_until <= now:
        creating.expire(reservation, creating.confirmation_of(reservation), effects)


def _expire_pending(reservation: Reservation, now: datetime, effects: Effects) -> None:
    if pending.until(reservation, _pool_of(reservation)) <= now:
        ending.expire(reservation, now=now, effects=effects)


def _next(reservation: Reservation, no_show_at: datetime | None) -> Outcome:
    waits = reservation.state == ReservationState.PENDING
    pool = _pool_of(reservation) if waits else None
    schedule = Schedule(
        state=ReservationState(reservation.state),
        created_at=reservation.created_at,
        starts_at=reservation.starts_at,
        ends_at=reservation.ends_at,
        lease_until=reservation.lease_until,
        bind_deadline=reservation.bind_deadline,
        confirm_until=reservation.confirm_until,
        pending_until=None if pool is None else pending.until(reservation, pool),
        in_a_queue=pool is not None and pool.queued,
        lost_to_rivals=outcomes.lost_to_rivals(reservation),
        degraded=conditions.find(reservation.conditions, ConditionType.DEGRADED) is not None,
        no_show_at=no_show_at,
    )
    moment = moments.next_look(schedule, reservation.read_at)
    return Done() if moment is None else At(moment)


def _pool_of(reservation: Reservation) -> PoolAccess:
    return catalogue.of_tenant(reservation.tenant_id, reservation.pool_id)
