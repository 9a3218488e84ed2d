"""What the last try to place a pending reservation found (R24).

Every try leaves its reasons and when it was, so no reason outlives what it was true of. When it
could start is worked out less often (``estimates``), and what is known of that goes as soon as a
try finds other reasons. All of it is kept in one column of the reservation, which has no version of
its own: it is what we saw, not what somebody changed. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from bettercompute import clock
from bettercompute.wire import reasons as wire
from pools import earliest
from pools.planner import reasons
from pools.planner.reasons import Reason

PAUSE = timedelta(seconds=20)  # less than a retry: what changed is worked out with the next one
LIFETIME = timedelta(minutes=5)

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The earliest start, or that none was found; and whether the reasons are still the same."""

    start_ms: int | None
    tested_ms: int
    holds: bool = True


@dataclass(frozen=True, slots=True)
class Trial:
    """Why it was not placed, and when it could be."""

    tested_ms: int
    reasons: tuple[wire.Reason, ...]
    estimate: Estimate | None = None

    @property
    def document(self) -> Document:
        """As it is stored."""
        estimate = self.estimate
        return {
            "testedAt": self.tested_ms,
            "reasons": [reason.model_dump(mode="json", by_alias=True) for reason in self.reasons],
            "estimate": None
            if estimate is None
            else {
                "start": estimate.start_ms,
                "testedAt": estimate.tested_ms,
                "holds": estimate.holds,
            },
        }


def restore(stored: Document | None) -> Trial | None:
    """The last try of a reservation; None where there was none since it became pending."""
    if stored is None:
        return None
    estimate = stored["estimate"]
    return Trial(
        tested_ms=stored["testedAt"],
        reasons=tuple(wire.Reason.model_validate(each) for each in stored["reasons"]),
        estimate=None
        if estimate is None
        else Estimate(estimate["start"], estimate["testedAt"], estimate["holds"]),
    )


def after(before: Document | None, found: Sequence[Reason], *, now: datetime) -> Trial:
    """What a try leaves behind, given what the one before it left."""
    told = tuple(reasons.answered(reason) for reason in found)
    known = restore(before)
    estimate = None if known is None else known.estimate
    if known is not None and estimate is not None and known.reasons != told:
        estimate = replace(estimate, holds=False)
    return Trial(clock.to_ms(now), told, estimate)


def estimate_due(trial: Trial) -> datetime | None:
    """When to work out (again) when it could start; None where no time helps."""
    if wire.never(trial.reasons):
        return None
    if not earliest.may_come((reason.filter, reason.until) for reason in trial.reasons):
        return None
    known, tried = trial.estimate, clock.from_ms(trial.tested_ms)
    if known is None:
        return tried
    tested = clock.from_ms(known.tested_ms)
    if not known.holds:
        return max(tried, tested + PAUSE)
    if known.start_ms is None:
        return tested + LIFETIME
    return max(tested + PAUSE, min(tested + LIFETIME, clock.from_ms(known.start_ms)))
