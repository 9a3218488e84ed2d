"""After the end: what nodes still hold, until they confirm that they let go (R35).

The reservation is over at once: state, ``during.end``, quota and billing. A device that a node had
bound is free only when the node says so, at latest at the booking's own end; past the unbind
deadline ``nodes.reconciler`` quarantines it, where an operator sees it.
"""

from datetime import datetime

from bettercompute.states import AllocationState
from nodes import assignments
from reservations import ending, lifecycle
from reservations.models import Reservation


def settle(reservation: Reservation, now: datetime) -> None:
    """Free what the nodes let go of. Each report of a node wakes this again."""
    reports = assignments.reports(reservation.id)
    gone = {report.allocation_id for report in reports if report.let_go}
    if not gone:
        return
    rows = reservation.allocations.filter(state=AllocationState.RELEASING, id__in=gone)
    if releasing := list(rows.order_by("id")):
        lifecycle.touch(reservation)
        ending.free(releasing, after=AllocationState.RELEASED, at=now)
    assignments.forget(gone, waking=[(lifecycle.POOL_KIND, reservation.pool_id, None)])
