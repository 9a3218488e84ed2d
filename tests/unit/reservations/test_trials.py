"""What a try leaves behind, and when it is worth working out the earliest start again."""

from datetime import timedelta

import pytest

from bettercompute import clock
from bettercompute.wire.reasons import Filter
from pools.planner import reasons
from pools.planner.reasons import Reason
from reservations import trials
from reservations.trials import Estimate, Trial

pytestmark = [pytest.mark.rule("R24"), pytest.mark.case(35)]

NOW = clock.from_ms(1_772_442_000_000)
BUSY = Reason(Filter.BUSY, "2 free devices", nodes=3, samples=("a", "b"), until_ms=1)
FREED = Reason(Filter.BUSY, "2 free devices", nodes=2, samples=("a", "b"), until_ms=1)
LACKING = Reason(Filter.MODEL, "H200", nodes=3)
HOUR_MS = 3_600_000


def ms(after: timedelta) -> int:
    return clock.to_ms(NOW + after)


def trial(estimate: Estimate | None, reason: Reason = BUSY) -> Trial:
    return Trial(ms(timedelta(0)), (reasons.answered(reason),), estimate)


def test_what_is_stored_comes_back_as_it_was() -> None:
    whole = trial(Estimate(ms(timedelta(hours=3)), ms(timedelta(0)), holds=False))
    assert trials.restore(whole.document) == whole
    assert trials.restore(trial(None).document) == trial(None)
    assert trials.restore(None) is None


def test_the_same_reasons_keep_the_earliest_start_and_others_do_not() -> None:
    known = Estimate(ms(timedelta(hours=3)), ms(timedelta(0)))
    before = trial(known).document
    later = NOW + timedelta(seconds=30)
    same = trials.after(before, [BUSY], now=later)
    assert (same.tested_ms, same.estimate) == (clock.to_ms(later), known)
    other = trials.after(same.document, [FREED], now=later)
    assert other.estimate == Estimate(known.start_ms, known.tested_ms, holds=False)
    again = trials.after(other.document, [BUSY], now=later)
    assert again.estimate == other.estimate, "nobody has worked it out since"


@pytest.mark.parametrize(
    ("found", "due"),
    [
        (trial(None), timedelta(0)),
        (trial(None, LACKING), None),
        (trial(Estimate(ms(timedelta(hours=3)), ms(timedelta(0)))), timedelta(minutes=5)),
        (trial(Estimate(None, ms(timedelta(0)))), timedelta(minutes=5)),
        (trial(Estimate(ms(timedelta(hours=3)), ms(timedelta(0)), holds=False)), trials.PAUSE),
        (trial(Estimate(ms(timedelta(minutes=1)), ms(timedelta(0)))), timedelta(minutes=1)),
        (trial(Estimate(ms(timedelta(0)), ms(timedelta(0)))), trials.PAUSE),
    ],
)
def test_it_is_worked_out_when_unknown_outdated_passed_or_old(
    found: Trial, due: timedelta | None
) -> None:
    assert trials.estimate_due(found) == (None if due is None else NOW + due)
