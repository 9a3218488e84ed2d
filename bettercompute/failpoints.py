"""Named places where a test may stop or crash a process; in production each is a no-op.

Every point is listed here and used by at least one test (tests/architecture checks that).
"""

from collections.abc import Callable
from enum import StrEnum


class Failpoint(StrEnum):
    """Where a test may intervene."""

    DRAFT_RECORDED = "draft.recorded"  # admission: after transaction 1 committed
    PLACEMENT_PLANNED = "placement.planned"  # admission: planned, no lock taken yet
    PLACEMENT_BOOKED = "placement.booked"  # inside transaction 2: bookings written
    PLACEMENT_COMMITTED = "placement.committed"  # after transaction 2, before the answer
    PREEMPTION_CHOSEN = "preemption.chosen"  # who would give way is known, nothing locked yet
    EXTENSION_STAGED = "extension.staged"  # its hold is taken, nothing decided yet
    OCCURRENCE_TRIED = "occurrence.tried"  # an occurrence was booked or not, the next comes
    WORK_CLAIMED = "work.claimed"  # a runner claimed a row, nothing done yet
    WORK_RECONCILED = "work.reconciled"  # reconciled and committed, row not finished yet
    EVENTS_ENQUEUED = "events.enqueued"  # a queue of events is filled, nothing committed yet
    WEBHOOK_SENT = "webhook.sent"  # a delivery was sent, what came of it is not written down yet


_armed: dict[Failpoint, Callable[[], None]] = {}


def reach(point: Failpoint) -> None:
    """Run what a test armed at this point; normally nothing."""
    action = _armed.get(point)
    if action is not None:
        action()


def arm(point: Failpoint, action: Callable[[], None]) -> None:
    """Tests only: run ``action`` each time the point is reached."""
    _armed[point] = action


def disarm() -> None:
    """Tests only: forget every armed action."""
    _armed.clear()
