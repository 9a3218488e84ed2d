"""Ending confirmations at their deadline, and the reservation that awaits one with it (R36)."""

from datetime import timedelta

from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.runner import At, Done, Outcome
from reservations import queries
from reservations.confirming import asking, creating, rows
from reservations.lifecycle import Effects
from reservations.models import Confirmation

#: How long it is kept what was asked and answered.
REMEMBERED = timedelta(days=90)
FORGOTTEN_AT_ONCE_MAX = 1_000


def reconcile(key: str, fence: Fence) -> Outcome:
    """Look at one confirmation; answers when to look again."""
    known = Confirmation.objects.filter(pk=key).first()
    if known is None or known.state not in rows.LIVE:
        return Done()
    with fence():
        waits = known.action == rows.CREATE
        reservation = queries.locked(known.resource_id) if waits else None
        confirmation = rows.locked(key)
        if confirmation is None or confirmation.state not in rows.LIVE:
            return Done()
        if not rows.is_overdue(confirmation):
            return At(confirmation.expires_at)
        effects = Effects()
        if reservation is None:
            asking.expire(confirmation, effects)
        else:
            creating.expire(reservation, confirmation, effects)
        effects.flush()
    return Done()


def forget(fence: Fence) -> int:
    """Remove what was answered long ago; answers how many."""
    with fence():
        return rows.CONFIRMATIONS.run("forget", age=REMEMBERED, limit=FORGOTTEN_AT_ONCE_MAX)
