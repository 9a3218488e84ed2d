"""Which periods a budget has. Pure."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from pools.budgets import Terms
from pools.models import BudgetPeriod

pytestmark = pytest.mark.rule("R39")

BERLIN = ZoneInfo("Europe/Berlin")
DAY = timedelta(days=1)


def terms(period: BudgetPeriod = BudgetPeriod.MONTH, zone: ZoneInfo = BERLIN, **window) -> Terms:
    dates = {"starts_at": None, "ends_at": None, **window}
    return Terms("bud_1", "lab", None, 1_000, period, zone, **dates)


def at(month: int, day: int, hour: int = 0, *, year: int = 2026) -> datetime:
    return datetime(year, month, day, hour, tzinfo=UTC)


def test_months_end_with_their_zones_midnight_and_follow_one_another():
    spans = list(terms().periods(at(2, 10), at(5, 1)))
    assert [(span.start, span.end) for span in spans] == [
        (at(1, 31, 23), at(2, 28, 23)),
        (at(2, 28, 23), at(3, 31, 22)),  # clocks go forward: an hour shorter
        (at(3, 31, 22), at(4, 30, 22)),
        (at(4, 30, 22), at(5, 31, 22)),  # the first of May has begun in Berlin
    ]


def test_a_year_has_twelve_and_a_window_that_ends_at_midnight_does_not_reach_into_the_next():
    whole = list(terms(zone=ZoneInfo("UTC")).periods(at(1, 1), at(1, 1, year=2027)))
    assert len(whole) == 12
    assert whole[-1].end == at(1, 1, year=2027)
    assert [span.start for span in terms(zone=ZoneInfo("UTC")).periods(at(1, 30), at(2, 1))] == [
        at(1, 1)
    ]


def test_the_present_month_is_the_one_of_the_zone():
    assert terms(zone=ZoneInfo("Pacific/Auckland")).present(at(3, 31, 12)).start == at(3, 31, 11)
    assert terms(zone=ZoneInfo("America/New_York")).present(at(4, 1)).end == at(4, 1, 4)


def test_a_window_counts_what_reaches_into_it_and_nothing_else():
    budget = terms(BudgetPeriod.WINDOW, starts_at=at(3, 1), ends_at=at(4, 1))
    assert [(span.start, span.end) for span in budget.periods(at(2, 20), at(3, 2))] == [
        (at(3, 1), at(4, 1))
    ]
    for start, end in ((at(2, 1), at(3, 1)), (at(4, 1), at(5, 1))):
        assert list(budget.periods(start, end)) == []
    assert budget.present(at(7, 1)).end == at(4, 1)
