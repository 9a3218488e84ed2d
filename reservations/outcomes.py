"""What becomes of a reservation once placing was tried: placed, or pending with the reason why.

Shared by admission and by every later try, so both leave the same rows, events and wake-ups.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from bettercompute import clock
from bettercompute.states import ReservationState
from bettercompute.telemetry import metrics
from bettercompute.wire import reasons as wire
from pools.planner import reasons
from pools.planner.reasons import Reason
from reservations import conditions, lifecycle, moments, trials
from reservations.conditions import ConditionType
from reservations.lifecycle import Effects
from reservations.models import Reservation
from reservations.placement import Placed, Unplaced

LOST_TO_RIVALS = "LostToRivals"
NO_CAPACITY = "NoCapacity"

_WAITS_ALL_THE_SAME = " It waits all the same, and counts against the quota, until it is cancelled."


def record(
    reservation: Reservation,
    outcome: Placed | Unplaced,
    effects: Effects,
    values: Mapping[str, Any] | None = None,
    *,
    retried_by_pool: bool = False,
) -> None:
    """Write down how a try went, for a reservation whose row is locked.

    One that did not fit is woken for its next try, unless its pool tries the whole line again.
    """
    placer = "queued" if retried_by_pool else "inline"
    metrics.count_on_commit(metrics.PLACEMENTS, placer=placer, outcome=_in_a_word(outcome))
    if isinstance(outcome, Placed):
        _placed(reservation, outcome, effects, values or {})
        return
    _pending(reservation, outcome, effects, values or {})
    if not retried_by_pool:
        retry = moments.RIVAL_RETRY if outcome.lost_to_rivals else moments.PENDING_RETRY
        effects.wake(lifecycle.KIND, reservation.id, reservation.read_at + retry)


def _in_a_word(outcome: Placed | Unplaced) -> str:
    if isinstance(outcome, Placed):
        return "placed"
    return "lost" if outcome.lost_to_rivals else "no-fit"


def queue(reservation: Reservation, effects: Effects, values: Mapping[str, Any]) -> None:
    """Leave it to the queued placer (R13)."""
    queued = conditions.put(
        conditions.clear(reservation.conditions, ConditionType.CONFIRMATION_REQUIRED),
        ConditionType.QUEUED,
        reason="AwaitingBatch",
        message="The pool's placer will place it with the next batch.",
        now_ms=clock.to_ms(reservation.read_at),
    )
    lifecycle.move(
        reservation,
        ReservationState.PENDING,
        {**values, "conditions": queued, **_requested_window(reservation)},
    )
    effects.wake(lifecycle.KIND, reservation.id, reservation.read_at + moments.PENDING_RETRY)
    effects.wake(lifecycle.POOL_KIND, reservation.pool_id)
    effects.event(reservation, "queued")


def _placed(
    reservation: Reservation, outcome: Placed, effects: Effects, values: Mapping[str, Any]
) -> None:
    now = reservation.read_at
    window = outcome.window
    lease = reservation.lease_seconds
    lifecycle.move(
        reservation,
        ReservationState.PLACED,
        {
            **values,
            "starts_at": window.start,
            "ends_at": window.end,
            "placed_at": now,
            "lease_until": None if lease is None else now + timedelta(seconds=lease),
            "gpu_milli": outcome.gpu_milli,
            "conditions": conditions.clear(
                reservation.conditions,
                ConditionType.UNSCHEDULABLE,
                ConditionType.QUEUED,
                ConditionType.CONFIRMATION_REQUIRED,
            ),
        },
    )
    effects.wake(lifecycle.KIND, reservation.id, _first_look(reservation, now))
    effects.event(
        reservation,
        "placed",
        nodeIds=sorted({allocation.node_id for allocation in outcome.allocations}),
        start=clock.to_ms(window.start),
        end=clock.to_ms(window.end),
    )


def _first_look(reservation: Reservation, now: datetime) -> datetime | None:
    """Now where it has started; else before the start, with time to check it, or when its lease
    would lapse, if that is sooner (R24).
    """
    assert reservation.starts_at is not None
    if reservation.starts_at <= now:
        return None
    check = max(reservation.starts_at - moments.CHECK_BEFORE_START, now)
    return check if reservation.lease_until is None else min(check, reservation.lease_until)


def _pending(
    reservation: Reservation, outcome: Unplaced, effects: Effects, values: Mapping[str, Any]
) -> None:
    now, reason = reservation.read_at, why(outcome)
    unschedulable = conditions.put(
        conditions.clear(
            reservation.conditions, ConditionType.QUEUED, ConditionType.CONFIRMATION_REQUIRED
        ),
        ConditionType.UNSCHEDULABLE,
        reason=reason,
        message=explain(outcome) + (_WAITS_ALL_THE_SAME if reason == wire.NEVER_FITS else ""),
        now_ms=clock.to_ms(now),
    )
    trial = trials.after(reservation.waiting, outcome.reasons, now=now)
    seen = trial.document
    if reservation.state == ReservationState.PENDING:
        was_queued = conditions.find(reservation.conditions, ConditionType.QUEUED) is not None
        if unschedulable != reservation.conditions:
            lifecycle.amend(reservation, {"conditions": unschedulable, "waiting": seen})
        else:
            lifecycle.observe(reservation, seen)
        if was_queued:  # its first try: the inline placer tells this when it is made
            effects.event(reservation, "pending", reason="Unschedulable")
        return
    lifecycle.move(
        reservation,
        ReservationState.PENDING,
        {
            **values,
            "conditions": unschedulable,
            "waiting": seen,
            **_requested_window(reservation),
        },
    )
    if trials.estimate_due(trial) is not None:
        effects.wake(lifecycle.KIND, reservation.id)  # to work out when it could start
    effects.event(reservation, "pending", reason="Unschedulable")


def lost_to_rivals(reservation: Reservation) -> bool:
    """Whether its last try lost to rivals only: then it is tried again within a second (C18)."""
    why = conditions.find(reservation.conditions, ConditionType.UNSCHEDULABLE)
    return why is not None and why["reason"] == LOST_TO_RIVALS


def _requested_window(reservation: Reservation) -> dict[str, datetime]:
    """A pending reservation keeps its requested start while that is ahead (R17)."""
    start = reservation.requested_start
    if start is None or start <= reservation.read_at:
        return {}
    length = timedelta(milliseconds=reservation.duration_ms)
    return {"starts_at": start, "ends_at": start + length}


def why(outcome: Unplaced) -> str:
    """The reason of the condition that says so."""
    if outcome.lost_to_rivals:
        return LOST_TO_RIVALS
    return wire.NEVER_FITS if _never(outcome) else NO_CAPACITY


def explain(outcome: Unplaced) -> str:
    """Why it does not fit, in a sentence for people."""
    if outcome.lost_to_rivals:
        return "Others were faster; it is tried again within a second."
    if not outcome.reasons:
        return "The pool has no node that could serve it."
    if _never(outcome):
        lacking = next(each for each in outcome.reasons if each.most is not None)
        return f"It needs {lacking.needs}; the most is {lacking.most}, even with nothing booked."
    return "; ".join(_phrase(reason) for reason in outcome.reasons[:3]) + "."


def _never(outcome: Unplaced) -> bool:
    return wire.never([reasons.answered(reason) for reason in outcome.reasons])


def _phrase(reason: Reason) -> str:
    count = "1 node lacks" if reason.nodes == 1 else f"{reason.nodes} nodes lack"
    return f"{count} {reason.needs} ({reason.filter})"
