"""What must hold whatever happened: the product's own self-checks, and what only a test can know.

Each check answers the offenders, so an empty list is the proof.
"""

from collections.abc import Callable, Iterable

from django.db import connection

from bettercompute.findings import Finding
from nodes import checks as nodes
from pools import checks as pools
from reservations import checks as reservations

Check = Callable[[], Iterable[Finding]]

# These say that something is late or short, which a test may well have caused itself.
_NO_INVARIANTS = {
    "overdue_ends",
    "overcommitted_resources",
    "refused_inventories",
}

CHECKS: tuple[Check, ...] = tuple(
    check
    for check in (*nodes.ALL, *pools.ALL, *reservations.ALL)
    if check.__name__ not in _NO_INVARIANTS
)

# Where history is kept for ever, as in a test, every state that a row has been in was told.
_UNTOLD = {
    "placed": "placed_at IS NOT NULL",
    "active": "bound_at IS NOT NULL",
    "released": "state = 'released'",
    "cancelled": "state = 'cancelled'",
    "failed": "state = 'failed'",
}

_BOOKED_BESIDE_ITS_MODE = """
SELECT device_bookings.device_id
FROM device_bookings
JOIN devices ON devices.id = device_bookings.device_id
WHERE upper(device_bookings.during) > compute_now()
    AND devices.bookable_mode IS NULL
    AND NOT starts_with(device_bookings.allocation_id, 'cmd_')
"""

_ENDED_WITHOUT_LETTING_GO = """
SELECT allocations.id
FROM allocations
JOIN reservations ON reservations.id = allocations.reservation_id
JOIN device_bookings ON device_bookings.allocation_id = allocations.id
WHERE reservations.state IN ('released', 'failed', 'cancelled', 'expired', 'denied')
    AND upper(device_bookings.during) > compute_now()
    AND allocations.state <> 'releasing'
"""


def violations() -> list[str]:
    """Every invariant that does not hold, with its offenders."""
    found = [f"{f.check}: {f.message}" for check in CHECKS for f in check()]
    found += [f"booked beside its mode: {key}" for key in _keys(_BOOKED_BESIDE_ITS_MODE)]
    found += [f"ended and booked: {key}" for key in _keys(_ENDED_WITHOUT_LETTING_GO)]
    for event, condition in _UNTOLD.items():
        untold = _keys(
            f"SELECT id FROM reservations WHERE {condition} AND NOT EXISTS ("
            " SELECT FROM outbox WHERE subject = 'reservation/' || reservations.id"
            f" AND type = 'reservation.{event}')"
        )
        found += [f"never told reservation.{event}: {key}" for key in untold]
    return found


def lost(acknowledged: Iterable[str]) -> list[str]:
    """Reservations that a client was told of, and that are not there."""
    known = set(_keys("SELECT id FROM reservations WHERE state <> 'draft'"))
    return sorted(set(acknowledged) - known)


def held() -> list[str]:
    """Whatever is still held of anything: nothing, once everything has ended."""
    return [f"{what}: {key}" for what, statement in _HELD.items() for key in _keys(statement)]


_HELD = {
    "booked": "SELECT allocation_id FROM device_bookings WHERE upper(during) > compute_now()"
    " AND NOT starts_with(allocation_id, 'cmd_')",
    "allocated": "SELECT node_id || ' ' || resource FROM node_resources WHERE allocated <> 0",
    "charged": "SELECT tenant_id || ' ' || resource FROM quota_usage WHERE used <> 0",
    "assigned": "SELECT allocation_id FROM assignments WHERE wanted",
}


def _keys(statement: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [key for (key,) in cursor.fetchall()]
