"""Invariants of confirmations, as queries that answer the offenders (C39)."""

from collections.abc import Iterable
from datetime import timedelta

from bettercompute import findings, sql
from bettercompute.findings import Check, Finding
from reservations import checks

CHECKS = sql.load(__package__, "checks")
LATE = timedelta(minutes=5)


@findings.check("confirmations.reservations", invariant=True)
def reservations_await_live_confirmations() -> Iterable[Finding]:
    """A reservation awaits its confirmation exactly as long as that is live (R36)."""
    yield from _offenders(
        "beside_their_reservation",
        check="confirmations.reservations",
        says="reservations await a confirmation that is over, or are over before it",
        do="Report it: this must not happen.",
    )


@findings.check("confirmations.charges", invariant=True)
def nothing_charged_before_approval() -> Iterable[Finding]:
    """What a person has yet to approve is charged to no quota (R36)."""
    yield from _offenders(
        "charged",
        check="confirmations.charges",
        says="reservations are charged before their person approved them",
        do="Report it: this must not happen.",
    )


@findings.check("confirmations.queued", invariant=True)
def confirmations_looked_at() -> Iterable[Finding]:
    """Every confirmation that has a deadline ahead is in the work queue (C25)."""
    yield from _offenders(
        "forgotten",
        check="confirmations.queued",
        says="open confirmations are not in the work queue",
        do="The resync wakes them within minutes; report it all the same.",
    )


@findings.check("confirmations.deadlines")
def confirmations_end_in_time() -> Iterable[Finding]:
    """No confirmation stays open long behind its deadline."""
    found = [key for (key,) in CHECKS.all("overdue", late=LATE)]
    yield from checks.finding(
        found,
        check="confirmations.deadlines",
        says="confirmations are open though their time is over",
        do="See that a worker and beat run, then look at the work queue's last errors.",
    )


ALL: tuple[Check, ...] = (
    reservations_await_live_confirmations,
    nothing_charged_before_approval,
    confirmations_looked_at,
    confirmations_end_in_time,
)


def _offenders(statement: str, *, check: str, says: str, do: str) -> Iterable[Finding]:
    found = [key for (key,) in CHECKS.all(statement)]
    yield from checks.finding(found, check=check, says=says, do=do)
