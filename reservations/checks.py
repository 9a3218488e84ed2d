"""Invariants of reservations, as queries that answer the offenders (C39)."""

from collections.abc import Iterable, Sequence

from bettercompute import findings, sql
from bettercompute.findings import Check, Finding

CHECKS = sql.load(__package__, "checks")

OFFENDERS_SHOWN_MAX = 5


@findings.check("reservations.bookings", invariant=True)
def bookings_of_live_allocations() -> Iterable[Finding]:
    """Every booking that reaches into the future belongs to an allocation that holds it."""
    yield from _offenders(
        "bookings_of_ended_allocations",
        check="reservations.bookings",
        says="bookings go on though their allocation has ended",
        do="Report it: this must not happen. `better-compute release` frees them.",
    )


@findings.check("reservations.held", invariant=True)
def nothing_held_after_the_end() -> Iterable[Finding]:
    """A reservation that has ended holds nothing but what a node has yet to let go (R35)."""
    yield from _offenders(
        "ended_and_booked",
        check="reservations.held",
        says="allocations of ended reservations are still booked",
        do="Report it: this must not happen.",
    )


@findings.check("reservations.charges", invariant=True)
def charges_of_live_reservations() -> Iterable[Finding]:
    """No reservation that has ended is still charged to a quota (C14)."""
    yield from _offenders(
        "charges_of_ended_reservations",
        check="reservations.charges",
        says="ended reservations are still charged to a quota",
        do="Report it: this must not happen.",
    )


@findings.check("reservations.uncharged", invariant=True)
def uncharged_reservations() -> Iterable[Finding]:
    """Every reservation that has not ended is charged: to its tenant, pool and owner (C14)."""
    yield from _offenders(
        "uncharged",
        check="reservations.uncharged",
        says="live reservations are charged to no quota, or to another's",
        do="Report it: this must not happen.",
    )


@findings.check("reservations.misbooked", invariant=True)
def bookings_as_allocated() -> Iterable[Finding]:
    """A live allocation has exactly the bookings that it says, for exactly its window."""
    yield from _offenders(
        "allocations_misbooked",
        check="reservations.misbooked",
        says="allocations are booked otherwise than they say",
        do="Report it: this must not happen. Release them and reserve again.",
    )


@findings.check("reservations.partial", invariant=True)
def whole_or_nothing() -> Iterable[Finding]:
    """No reservation holds a part of what it asked for (R16)."""
    yield from _offenders(
        "held_in_part",
        check="reservations.partial",
        says="reservations hold only a part, or something while they should hold nothing",
        do="Report it: this must not happen. Release them and reserve again.",
    )


@findings.check("reservations.forgotten", invariant=True)
def forgotten_reservations() -> Iterable[Finding]:
    """Every reservation that has somewhere to go is in the work queue (C25)."""
    yield from _offenders(
        "forgotten",
        check="reservations.forgotten",
        says="live reservations are not in the work queue",
        do="The resync wakes them within minutes; report it all the same.",
    )


@findings.check("reservations.forgotten-lines", invariant=True)
def forgotten_lines() -> Iterable[Finding]:
    """Every queued pool that somebody waits for is in the work queue (C25, R13)."""
    yield from _offenders(
        "forgotten_lines",
        check="reservations.forgotten-lines",
        says="queued pools that somebody waits for are not in the work queue",
        do="The resync wakes them within minutes; report it all the same.",
    )


@findings.check("reservations.overdue")
def overdue_ends() -> Iterable[Finding]:
    """Nothing is still running a minute behind its end: late at worst, never stuck (C27)."""
    yield from _offenders(
        "overdue_ends",
        check="reservations.overdue",
        says="reservations have passed their end and are not released",
        do="See that a worker and beat run, then look at the work queue's last errors.",
    )


@findings.check("reservations.preempting", invariant=True)
def cut_short_and_told() -> Iterable[Finding]:
    """Only spot ends before its whole duration, and it was told so (R19)."""
    yield from _offenders(
        "cut_short_untold",
        check="reservations.preempting",
        says="reservations end before their time and were not told, or were told and do not",
        do="Report it: this must not happen.",
    )


ALL: tuple[Check, ...] = (
    bookings_of_live_allocations,
    nothing_held_after_the_end,
    charges_of_live_reservations,
    uncharged_reservations,
    bookings_as_allocated,
    whole_or_nothing,
    forgotten_reservations,
    forgotten_lines,
    overdue_ends,
    cut_short_and_told,
)


def _offenders(statement: str, *, check: str, says: str, do: str) -> Iterable[Finding]:
    found = [key for (key,) in CHECKS.all(statement)]
    yield from finding(found, check=check, says=says, do=do)


def finding(found: Sequence[str], *, check: str, says: str, do: str) -> Iterable[Finding]:
    """One finding for all of these, where there are any."""
    if found:
        shown = ", ".join(found[:OFFENDERS_SHOWN_MAX])
        yield Finding(check=check, message=f"{len(found)} {says}: {shown}", do=do)
