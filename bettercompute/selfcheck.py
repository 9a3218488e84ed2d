"""Verifying the invariants of a live system (C39): every app's checks, by name, with what to do."""

from collections.abc import Callable, Iterable

from django.db import Error

from bettercompute import wiring
from bettercompute.coordination import reconnecting
from bettercompute.findings import Finding

Check = Callable[[], Iterable[Finding]]


def run(checks: Iterable[Check] | None = None) -> list[Finding]:
    """Run all checks (or these); empty is well. A check that breaks is a finding of its own."""
    return [f for check in (wiring.checks() if checks is None else checks) for f in _one(check)]


def _one(check: Check) -> list[Finding]:
    area = check.__module__.split(".")[-2]
    try:
        return list(check())
    except Error as error:
        reconnecting.drop_if_broken()
        return [
            Finding(
                f"{area}.{check.__name__}",
                f"The check itself failed: {error}",
                "See that the database is reachable and migrated: manage.py migrate --check.",
            )
        ]
