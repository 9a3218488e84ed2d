"""Keeps a node's promises to let go (R35): past the unbind deadline its devices are quarantined.

A device that a node does not confirm to have let go may still be used by somebody. So it is kept
from new placements, visibly, until an operator looks. A silent node is not late: it cannot say.
Nor is one that nobody listened to, in an outage of ours.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

from bettercompute import clock
from bettercompute.coordination.runner import At, Done, Outcome
from nodes import assignments, eligibility

UNBIND_SECONDS = 300
SILENT_RETRY_SECONDS = 30
HELD_OFF_SECONDS = 5
REASON = "unbind-timeout"


def reconcile(key: str, fence: Callable[[], AbstractContextManager[None]]) -> Outcome:
    """Quarantine what this node should have let go by now; look again at the next deadline."""
    waiting = assignments.unconfirmed(key, unbind_seconds=UNBIND_SECONDS)
    if not waiting:
        return Done()
    if waiting[0].node_is_silent:
        return At(clock.now() + timedelta(seconds=SILENT_RETRY_SECONDS))
    overdue = sorted({device for each in waiting if each.overdue for device in each.device_ids})
    if overdue:
        with fence():
            eligibility.quarantine_all(overdue, reason=REASON)
    deadlines = [each.due_at for each in waiting if not each.overdue]
    if not deadlines:
        return Done()
    # A deadline that passed while nobody listened to the node is not judged yet (C38).
    return At(max(min(deadlines), clock.now() + timedelta(seconds=HELD_OFF_SECONDS)))
