"""What must hold whatever happened: the invariants of the product's own self-check, and what only a
test can know.

Each check answers the offenders, so an empty list is the proof.
"""

from collections.abc import Iterable

from django.db import connection

from bettercompute import wiring
from bettercompute.findings import Check

CHECKS: tuple[Check, ...] = tuple(check for check in wiring.checks() if check.invariant)

# Where history is kept for ever, as in a test, every state that a row has been in was told.
_UNTOLD = {
    "placed": "placed_at IS NOT NULL",
    "active": "bound_at IS NOT NULL",
    "released": "state = 'released'",
    "cancelled": "state = 'cancelled'",
    "failed": "state = 'failed'",
}


def violations() -> list[str]:
    """Every invariant that does not hold, with its offenders."""
    found = [f"{f.check}: {f.message}" for check in CHECKS for f in check()]
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
