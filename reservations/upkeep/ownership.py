"""Whether somebody still answers for a reservation. Never a reason to end one (R24).

Accounts come and go, and a directory of users may be unreachable: then a reservation keeps its
devices, its quota and its end, and says that its owner is unresolved. Its tenant's admins can end
it. The next look after the owner is back, at the latest the resync's (C27), takes it off again.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bettercompute import clock
from bettercompute.iam import memberships
from bettercompute.iam.memberships import Absence
from reservations import conditions, lifecycle
from reservations.conditions import Conditions, ConditionType
from reservations.models import Reservation

_MESSAGES = {
    Absence.ACCOUNT_DISABLED: "The account that made it is disabled.",
    Absence.NO_MEMBER: "Whoever made it does not belong to the tenant any more.",
}


def refresh(reservation: Reservation, now: datetime) -> None:
    """Set or clear ``OwnerUnresolved`` on a live reservation whose row is locked."""
    absence = memberships.absence(reservation.owner_id, reservation.tenant_id)
    wanted = noted(reservation.conditions, absence, now=now)
    if wanted != reservation.conditions:
        lifecycle.amend(reservation, {"conditions": wanted})


def noted(known: Sequence[dict[str, Any]], absence: Absence | None, *, now: datetime) -> Conditions:
    """The conditions with ``OwnerUnresolved`` among them, or without it."""
    kind = ConditionType.OWNER_UNRESOLVED
    if absence is None:
        return conditions.clear(known, kind)
    return conditions.put(
        known,
        kind,
        reason=str(absence),
        message=_MESSAGES[absence],
        now_ms=clock.to_ms(now),
    )
