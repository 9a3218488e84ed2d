"""What "bound" means for a hold (R26): every node wrote its CDI spec and env file, and said so.

At the start each node's desired state gains an assignment per allocation. All reported bound makes
the reservation active. No report in five minutes, or a failed one, frees the bookings and places it
again, at most twice; the third failure fails it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from bettercompute.states import AllocationState, ReservationState
from nodes import assignments, hearing
from nodes.assignments import AssignmentReport
from reservations import conditions, ending, lifecycle, moments
from reservations.bindings import verdict
from reservations.bindings.verdict import Verdict
from reservations.conditions import ConditionType
from reservations.lifecycle import Effects
from reservations.models import Allocation, Reservation

FAILURES_MAX = 3
HELD_BY_EARLIER = "an earlier holder has not let go of a device in time"


def begin(reservation: Reservation, now: datetime, effects: Effects) -> None:
    """The start is reached: have the nodes bind it."""
    assert reservation.starts_at is not None
    if reservation.starts_at > now:
        return
    allocations = ending.live_allocations(reservation)
    begun = conditions.clear(reservation.conditions, ConditionType.AWAITING_PREEMPTION)
    lifecycle.move(
        reservation, ReservationState.BINDING, {"bind_deadline": None, "conditions": begun}
    )
    for allocation in allocations:
        lifecycle.move_allocation(allocation, AllocationState.BINDING)
    effects.event(reservation, "binding")


def advance(reservation: Reservation, now: datetime, effects: Effects) -> None:
    """Judge what the nodes said so far, and the deadline; then ask for what is missing.

    Giving up comes first: it locks bookings, which stand before desired state in the order (C19).
    """
    allocations = ending.live_allocations(reservation)
    reports = {r.allocation_id: r for r in assignments.reports(reservation.id)}
    said = verdict.judge(allocations, reports)
    for allocation in said.bound:
        _bind(allocation, reports[allocation.id])
    if said.complete:
        lifecycle.move(
            reservation, ReservationState.ACTIVE, {"bound_at": now, "bind_deadline": None}
        )
        effects.event(reservation, "active")
    elif said.failed or _deadline_passed(reservation, said.waiting, now):
        _place_again(reservation, allocations, _why(said, reports), now=now, effects=effects)
    elif _blocked_too_long(reservation, reports.values(), now):
        _line_up(reservation, allocations, HELD_BY_EARLIER, now=now, effects=effects)
    else:
        _want(reservation, allocations)
        if said.bound:
            lifecycle.touch(reservation)


def _want(reservation: Reservation, allocations: Sequence[Allocation]) -> None:
    """Ask the nodes for it. The deadline runs from when the last of them may bind it (R35)."""
    entered = assignments.want([allocation.id for allocation in allocations])
    if len(entered) == len(allocations) and reservation.bind_deadline is None:
        deadline = max(entered.values()) + moments.BIND_TIMEOUT
        lifecycle.amend(reservation, {"bind_deadline": deadline})


def _bind(allocation: Allocation, report: AssignmentReport) -> None:
    lifecycle.move_allocation(
        allocation, AllocationState.BOUND, {"binding": verdict.document(allocation, report)}
    )


def _deadline_passed(reservation: Reservation, silent: Sequence[Allocation], now: datetime) -> bool:
    """Whether a node had its five minutes, could have reported in them, and did not (C38)."""
    deadline = reservation.bind_deadline
    if deadline is None or deadline > now:
        return False
    heard = hearing.of(allocation.node_id for allocation in silent)
    return heard.passed(deadline, allowed=moments.BIND_TIMEOUT, now=now)


def _why(said: Verdict, reports: Mapping[str, AssignmentReport]) -> str:
    return verdict.reason(said.failed, reports) or "no report from the node in time"


def _blocked_too_long(
    reservation: Reservation, reports: Iterable[AssignmentReport], now: datetime
) -> bool:
    """Whether an earlier holder has kept a device past its unbind deadline (R35).

    It runs from when the node was asked to let go: after an outage of ours that comes late.
    """
    if reservation.bind_deadline is not None or reservation.starts_at is None:
        return False
    waiting = [report.node_id for report in reports if report.waiting]
    asked = assignments.earlier_left_at(reservation.id) if waiting else None
    if asked is None:
        return False
    deadline = max(asked, reservation.starts_at) + moments.UNBIND_TIMEOUT
    return hearing.of(waiting).passed(deadline, allowed=moments.UNBIND_TIMEOUT, now=now)


def _place_again(
    reservation: Reservation,
    allocations: Sequence[Allocation],
    why: str,
    *,
    now: datetime,
    effects: Effects,
) -> None:
    """Give the bookings back and line up again, or fail for good the third time."""
    reservation.placements_failed += 1
    if reservation.placements_failed >= FAILURES_MAX:
        ending.fail(reservation, allocations, why, now=now, effects=effects)
    else:
        _line_up(reservation, allocations, why, now=now, effects=effects)


def _line_up(
    reservation: Reservation,
    allocations: Sequence[Allocation],
    why: str,
    *,
    now: datetime,
    effects: Effects,
) -> None:
    ahead = reservation.requested_start is not None and reservation.requested_start > now
    window = {} if ahead else {"starts_at": None, "ends_at": None}
    lifecycle.move(
        reservation,
        ReservationState.PENDING,
        {
            "placements_failed": reservation.placements_failed,
            "bind_deadline": None,
            # It has nothing any more that it could give way with.
            "conditions": conditions.clear(reservation.conditions, ConditionType.PREEMPTING),
            **window,
        },
    )
    ending.free(allocations, after=AllocationState.FAILED, at=now, why=why)
    effects.event(reservation, "pending", reason="BindFailed")
    effects.wake(lifecycle.KIND, reservation.id)
    effects.wake(lifecycle.POOL_KIND, reservation.pool_id)
