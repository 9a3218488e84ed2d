"""Invariants of series, as queries that answer the offenders (C39)."""

from collections.abc import Iterable
from datetime import timedelta

from bettercompute import clock, findings, sql
from bettercompute.findings import Check, Finding
from pools import catalogue, occurrences
from reservations import checks

CHECKS = sql.load(__package__, "checks")


@findings.check("series.queued", invariant=True)
def series_looked_at() -> Iterable[Finding]:
    """Every series that has occurrences to book is in the work queue (C25)."""
    yield from _offenders(
        "series_forgotten",
        check="series.queued",
        says="active series are not in the work queue",
        do="The resync wakes them within minutes; report it all the same.",
    )


@findings.check("series.occurrences")
def occurrences_without_holes() -> Iterable[Finding]:
    """Every occurrence within its pool's horizon is booked, or was tried and says why not.

    One of a series whose owner is unresolved waits for that; an hour is time enough for a worker.
    """
    holes = {key for (key,) in CHECKS.all("occurrences_untried")}
    due_before = clock.now() - timedelta(hours=1)
    for key, created_at, next_at, policy, ahead in CHECKS.all("series_by_horizon"):
        near_since = next_at - occurrences.horizon(catalogue.parse_policy(policy))
        if max(near_since, created_at) < due_before and ahead < occurrences.AHEAD_MAX:
            holes.add(key)
    yield from checks.finding(
        sorted(holes),
        check="series.occurrences",
        says="series have occurrences that nobody tried to book for an hour",
        do="See that a worker and beat run, then look at the work queue's last errors.",
    )


@findings.check("series.owner")
def series_with_owner() -> Iterable[Finding]:
    """Somebody answers for every series, so that its occurrences are booked."""
    yield from _offenders(
        "series_unresolved",
        check="series.owner",
        says="series book nothing more: their owner is disabled or has left the tenant",
        do="Add the owner again, or have an admin of the tenant cancel the series.",
    )


ALL: tuple[Check, ...] = (series_looked_at, occurrences_without_holes, series_with_owner)


def _offenders(statement: str, *, check: str, says: str, do: str) -> Iterable[Finding]:
    found = [key for (key,) in CHECKS.all(statement)]
    yield from checks.finding(found, check=check, says=says, do=do)
