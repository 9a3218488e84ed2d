"""Ending a reservation: release, cancel, and what both share with an end that simply came (R35).

Order of the locks: the reservation, the quota (refunded first, C19), bookings and resources, the
work queue, the outbox.
"""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from bettercompute import clock, errors, states
from bettercompute.iam import decisions
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes
from bettercompute.states import AllocationState, ReservationState
from bettercompute.web import etags
from nodes import assignments, bookings, resources
from pools import quota
from reservations import lifecycle, queries
from reservations.confirming import asking
from reservations.confirming.asking import Approval
from reservations.confirming.rows import Intent
from reservations.lifecycle import Effects
from reservations.models import Allocation, Reservation

ACTION = "compute:reservations:release"
PREEMPTED = "preempted"
#: In which states each verb changes anything.
_ENDED_BY = {
    "release": (ReservationState.PENDING, *states.HOLDING),
    "cancel": (ReservationState.PENDING, ReservationState.PLACED),
}
LIVE = (AllocationState.PLACED, AllocationState.BINDING, AllocationState.BOUND)


def release(
    caller: Caller, *, reservation_id: str, if_match: frozenset[int] | None = None
) -> Reservation:
    """End it now: a pending one is cancelled, an ended one stays as it is.

    Raises:
        errors.NotFound: the caller's tenant has no such reservation.
        errors.AccessDenied: a policy denies it.
        errors.ConfirmationRequired: an agent's person has to approve it first.
        errors.PreconditionFailed: ``if_match`` has not the current version (C2).
        errors.InvalidState: it awaits a confirmation.
    """
    granted = _authorise(caller, queries.access(caller, reservation_id), "release")
    with transaction.atomic(durable=True):
        reservation = queries.access_locked(caller, reservation_id)
        etags.require(reservation.version, if_match)
        effects = Effects()
        match ReservationState(reservation.state):
            case ReservationState.PENDING:
                withdraw(reservation, effects)
                asking.use(granted)
            case ReservationState.PLACED | ReservationState.BINDING | ReservationState.ACTIVE:
                end(reservation, reason="release", effects=effects)
                asking.use(granted)
            case ReservationState.AWAITING_CONFIRMATION:
                raise errors.InvalidState(
                    "It awaits a confirmation: deny or withdraw that, or let it expire.",
                    state=reservation.state,
                )
            case _:
                pass  # terminal: no change
        effects.flush()
    return reservation


def cancel(
    caller: Caller, *, reservation_id: str, if_match: frozenset[int] | None = None
) -> Reservation:
    """Withdraw one that has not started: pending, or placed with its start ahead.

    Raises:
        errors.InvalidState: it has started, or has ended.
        errors.NotFound, errors.AccessDenied, errors.ConfirmationRequired,
        errors.PreconditionFailed: as for ``release``.
    """
    granted = _authorise(caller, queries.access(caller, reservation_id), "cancel")
    with transaction.atomic(durable=True):
        reservation = queries.access_locked(caller, reservation_id)
        etags.require(reservation.version, if_match)
        if not may_cancel(reservation):
            raise errors.InvalidState(
                f"Only what has not started can be cancelled; this is {reservation.state}.",
                state=reservation.state,
            )
        effects = Effects()
        withdraw(reservation, effects)
        asking.use(granted)
        effects.flush()
    return reservation


def _authorise(caller: Caller, reservation: Reservation, verb: str) -> Approval | None:
    decision = decisions.decide(
        caller,
        ACTION,
        resource_id=reservation.id,
        attributes=Attributes(
            tenant=reservation.tenant_id,
            owner=reservation.owner_id,
            pool=reservation.pool_id,
            users=len(reservation.shared_with),
            shared_with=tuple(reservation.shared_with),
        ),
    )
    if decision.effect == "confirm" and reservation.state not in _ENDED_BY[verb]:
        return asking.UNASKED
    return asking.approval(caller, decision, Intent(ACTION, reservation.id, {"verb": verb}))


def may_cancel(reservation: Reservation) -> bool:
    """Whether it has not started; its row is locked."""
    if reservation.state == ReservationState.PENDING:
        return True
    ahead = reservation.starts_at is not None and reservation.starts_at > reservation.read_at
    return reservation.state == ReservationState.PLACED and ahead


def withdraw(reservation: Reservation, effects: Effects) -> None:
    """Cancel one that has not started and whose row is locked."""
    now = reservation.read_at
    lifecycle.move(reservation, ReservationState.CANCELLED, {"ended_at": now, "conditions": []})
    _give_back(reservation, live_allocations(reservation), at=now, effects=effects)
    effects.event(reservation, "cancelled")


def end(reservation: Reservation, *, reason: str, effects: Effects) -> None:
    """Release a placed, binding or active reservation whose row is locked.

    ``during.end`` becomes now, or stays where the booking's end has already passed; one that never
    started keeps the window it asked for. Devices that a node still holds are freed when it
    confirms (``settle``), so nobody gets them before.
    """
    now = reservation.read_at
    values = {"reason": reason, "ended_at": now, "conditions": [], "bind_deadline": None}
    if _started(reservation, now):
        assert reservation.ends_at is not None
        values["ends_at"] = min(clock.whole(now), reservation.ends_at)
    was_active = reservation.state == ReservationState.ACTIVE
    lifecycle.move(reservation, ReservationState.RELEASED, values)
    allocations = live_allocations(reservation)
    held = [a for a in allocations if was_active and a.state == AllocationState.BOUND]
    _give_back(reservation, [a for a in allocations if a not in held], at=now, effects=effects)
    for allocation in held:
        lifecycle.move_allocation(allocation, AllocationState.RELEASING)
    if held:
        assignments.unwant([a.id for a in held])
    if reason == PREEMPTED:
        effects.event(reservation, "preempted")
    effects.event(reservation, "released", reason=reason)


def _started(reservation: Reservation, now: datetime) -> bool:
    return reservation.starts_at is not None and reservation.starts_at <= now


def live_allocations(reservation: Reservation) -> list[Allocation]:
    """Allocations that hold bookings, by id."""
    return list(reservation.allocations.filter(state__in=LIVE).order_by("id"))


def fail(
    reservation: Reservation,
    allocations: Sequence[Allocation],
    why: str,
    *,
    now: datetime,
    effects: Effects,
) -> None:
    """Give up on a reservation whose row is locked (R26)."""
    lifecycle.move(
        reservation,
        ReservationState.FAILED,
        {
            "reason": "bind-failed",
            "ended_at": now,
            "conditions": [],
            "bind_deadline": None,
            "placements_failed": reservation.placements_failed,
        },
    )
    quota.refund(reservation.id)
    free(allocations, after=AllocationState.FAILED, at=now, why=why)
    effects.event(reservation, "failed", reason="bind-failed")
    effects.wake(lifecycle.POOL_KIND, reservation.pool_id)
    effects.wake(lifecycle.KIND, reservation.id)


def expire(reservation: Reservation, *, now: datetime, effects: Effects) -> None:
    """End a reservation that waited in vain; its row is locked."""
    lifecycle.move(
        reservation,
        ReservationState.EXPIRED,
        {"reason": "expired", "ended_at": now, "conditions": []},
    )
    quota.refund(reservation.id)
    effects.event(reservation, "expired")


def _give_back(
    reservation: Reservation, allocations: Sequence[Allocation], *, at: datetime, effects: Effects
) -> None:
    """Refund the quota, free the bookings, and wake whoever waits for capacity (R24)."""
    quota.refund(reservation.id)
    free(allocations, after=AllocationState.RELEASED, at=at)
    effects.wake(lifecycle.POOL_KIND, reservation.pool_id)
    effects.wake(lifecycle.KIND, reservation.id)


def free(
    allocations: Sequence[Allocation], *, after: AllocationState, at: datetime, why: str = ""
) -> None:
    """End these allocations' bookings at an instant; future ones are deleted (R35)."""
    if not allocations:
        return
    allocation_ids = [allocation.id for allocation in allocations]
    for allocation in allocations:
        lifecycle.move_allocation(
            allocation, _after(allocation, after), {"ended_at": at, "reason": why}
        )
    bookings.truncate(allocation_ids, at=at)
    resources.free(allocation_ids, at=at)
    assignments.unwant(allocation_ids)


def _after(allocation: Allocation, wanted: AllocationState) -> AllocationState:
    """A bound part of a gang did not fail itself: it is released with the rest."""
    if wanted == AllocationState.FAILED and allocation.state == AllocationState.BOUND:
        return AllocationState.RELEASED
    return wanted
