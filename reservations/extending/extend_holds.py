"""One extension of a reservation at a time (R34).

The policies know one pending change per resource. Two extensions that staged theirs at once could
each be decided on the other's, or clear it; so whoever extends first takes the reservation's hold,
and only its owner applies or clears the change. A hold is a nonce of the server, since two requests
may share every id that a client sends; its age is the database's, and past a minute anybody takes
it over: its owner died.
"""

from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction

from bettercompute import errors, ids, sql
from bettercompute.iam import projection
from bettercompute.iam.decisions import Attributes
from reservations import rights
from reservations.models import Reservation

EXTEND_HOLDS = sql.load(__package__, "extend_holds")

HOLD_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Hold:
    """One extension under way, and what the policies knew before it."""

    id: str
    reservation_id: str
    before: Attributes


def take(reservation: Reservation, *, duration_minutes: int) -> Hold:
    """Stage a change: take the hold and write the pending duration, in one transaction.

    Raises:
        errors.Conflict: another extension is under way; ``details.retryAfterSeconds``.
    """
    hold_id = ids.new("hold")
    with transaction.atomic(durable=True):
        taken = EXTEND_HOLDS.run(
            "take", reservation_id=reservation.id, hold=hold_id, seconds=HOLD_SECONDS
        )
        if not taken:
            raise errors.Conflict(
                "Another extension of this reservation is under way.",
                reason="extend-in-flight",
                retryAfterSeconds=HOLD_SECONDS,
            )
        # Not before: an extension that was under way would be undone when this one is refused.
        before = rights.attributes_of(reservation)
        pending = {"durationMinutes": duration_minutes}
        projection.stage(reservation.id, pending)
    return Hold(hold_id, reservation.id, before)


def release(hold: Hold, *, after: Attributes | None = None) -> bool:
    """Clear the staged change, or with ``after`` make it the present state; in any transaction.

    False where somebody took the hold over: then nothing is changed, and nothing may be applied.
    """
    if not EXTEND_HOLDS.run("drop", reservation_id=hold.reservation_id, hold=hold.id):
        return False
    projection.settle(hold.reservation_id, _changes(hold.before, after or hold.before))
    return True


def _changes(before: Attributes, after: Attributes) -> dict[str, Any]:
    """Only what the extension changed: who may use it may have been changed meanwhile."""
    known = asdict(before)
    return {name: value for name, value in asdict(after).items() if value != known[name]}
