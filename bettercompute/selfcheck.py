"""Verifying the promises of a live system (C39): every app's checks, by name, with what to do.

Each check runs in a transaction of its own with a time limit, and all of them within a limit, so
that looking never hurts what is looked at. A process does it once at a time, and remembers what it
found for some seconds: however many ask, the database is asked once.
"""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured
from django.db import Error, transaction

from bettercompute import clock, errors, wiring
from bettercompute.coordination import checks as coordination
from bettercompute.coordination import reconnecting
from bettercompute.findings import Check, Finding

CHECK_SECONDS_MAX = 5.0
SECONDS_MAX = 20.0
FRESH_SECONDS = 10.0
RETRY_AFTER_SECONDS = 5

LOOK_AGAIN = "See that the database is reachable, migrated and not overloaded, then look again."
CONFIGURE = "Give this process the variables that the others have, then look again."


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one check came out; without findings, its promise is kept."""

    check: Check
    findings: tuple[Finding, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """One look at everything."""

    outcomes: tuple[Outcome, ...]
    taken_at_ms: int
    taken_at_monotonic: float

    @property
    def findings(self) -> list[Finding]:
        """All that is wrong."""
        return [finding for outcome in self.outcomes for finding in outcome.findings]

    @property
    def age_seconds(self) -> float:
        """How long ago it was taken."""
        return time.monotonic() - self.taken_at_monotonic


def run(checks: Iterable[Check] | None = None, *, seconds_max: float = SECONDS_MAX) -> Report:
    """Run all checks (or these). One that breaks, or that there was no time for, is a finding."""
    begun = time.monotonic()
    outcomes = tuple(
        _one(check, seconds_left=seconds_max - (time.monotonic() - begun))
        for check in (wiring.checks() if checks is None else checks)
    )
    return Report(outcomes, _now_ms(), time.monotonic())


class Latest:
    """The last report of this process, taken anew when it is asked for and no longer fresh."""

    def __init__(self) -> None:
        self._running = threading.Lock()
        self._report: Report | None = None

    def report(self) -> Report:
        """A report: a fresh one, or while one is being taken, the one before.

        Raises:
            errors.Unavailable: the first one is being taken right now.
        """
        known = self._report
        if known is not None and known.age_seconds < FRESH_SECONDS:
            return known
        if not self._running.acquire(blocking=False):
            if known is None:
                raise errors.Unavailable(
                    "The self-check is running; ask again in a moment.",
                    retryAfterSeconds=RETRY_AFTER_SECONDS,
                )
            return known
        try:
            self._report = run()
            return self._report
        finally:
            self._running.release()


LATEST = Latest()


def _one(check: Check, *, seconds_left: float) -> Outcome:
    begun = time.monotonic()
    seconds = min(CHECK_SECONDS_MAX, seconds_left)
    if seconds <= 0:
        found = [_unfinished(check, "there was no time left for it")]
    else:
        found = _look(check, seconds)
    return Outcome(check, tuple(found), time.monotonic() - begun)


def _look(check: Check, seconds: float) -> list[Finding]:
    try:
        with transaction.atomic():
            coordination.bound(seconds=seconds)
            return check()
    except Error as error:
        reconnecting.drop_if_broken()
        return [_unfinished(check, " ".join(str(error).split()) or type(error).__name__)]
    except ImproperlyConfigured as error:
        return [_unfinished(check, str(error), CONFIGURE)]
    except Exception as error:  # noqa: BLE001  # one check's defect must not hide what others find
        return [_unfinished(check, f"{type(error).__name__}: {error}")]


def _unfinished(check: Check, why: str, do: str = LOOK_AGAIN) -> Finding:
    return Finding(check.name, f"The check itself failed: {why}", do)


def _now_ms() -> int:
    try:
        return clock.now_ms()
    except Error:
        reconnecting.drop_if_broken()
        # Anchored never, and the database is away: the report is only about that.
        return 0
