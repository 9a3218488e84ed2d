"""Instants: one moment is one number, in whatever offset it is written; others are none (R4)."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute import clock, durations
from pools import instants
from pools.instants import InvalidInstant

pytestmark = pytest.mark.rule("R4")

BERLIN = ZoneInfo("Europe/Berlin")
OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(
    lambda minutes: timezone(timedelta(minutes=minutes))
)
MOMENTS = st.datetimes(
    datetime(1971, 1, 1),  # noqa: DTZ001  # hypothesis wants them naive, and adds the zone
    datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=OFFSETS,
)


@given(MOMENTS)
def test_it_is_read_to_the_whole_millisecond_before_it(moment: datetime) -> None:
    assert instants.parse(moment.isoformat()) == clock.to_ms(moment)


@given(MOMENTS, OFFSETS)
def test_the_offset_is_a_way_to_write_it_and_nothing_more(
    moment: datetime, other: timezone
) -> None:
    here, there = moment.isoformat(), moment.astimezone(other).isoformat()
    assert instants.parse(here) == instants.parse(there)
    utc = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    assert instants.parse(f"{utc}Z") == instants.parse(f"{utc.lower()}z") == instants.parse(here)


@given(MOMENTS)
def test_without_an_offset_it_is_none(moment: datetime) -> None:
    with pytest.raises(InvalidInstant, match="no offset"):
        instants.parse(moment.replace(tzinfo=None).isoformat())


@given(st.text(max_size=40) | st.text("0123456789-+:.TZ", max_size=30).map("2026-03-02T".__add__))
def test_any_text_is_an_instant_or_none(text: str) -> None:
    with suppress(InvalidInstant):
        assert clock.from_ms(instants.parse(text))


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00:00+14:00", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00"]
)
def test_what_is_beyond_what_a_number_may_say_is_none(text: str) -> None:
    with pytest.raises(InvalidInstant, match="from 1970 to 9999"):
        instants.parse(text)


@pytest.mark.parametrize("leap", ["2016-12-31T23:59:60Z", "2017-01-01T00:59:60.5+01:00"])
def test_a_leap_second_is_refused_as_one(leap: str) -> None:
    with pytest.raises(InvalidInstant, match="leap second"):
        instants.parse(leap)


def test_of_the_hour_that_comes_twice_the_offset_says_which() -> None:
    first, second = (
        instants.parse(f"2026-10-25T02:30:00{offset}") for offset in ("+02:00", "+01:00")
    )
    assert second - first == durations.parse("1h")


@pytest.mark.parametrize(("day", "hours"), [((2026, 3, 29), 23), ((2026, 10, 25), 25)])
def test_a_day_is_24_hours_also_where_the_clock_is_changed(
    day: tuple[int, int, int], hours: int
) -> None:
    """A duration is a length: only whoever repeats by local time has shorter and longer days."""
    midnight = datetime(*day, tzinfo=BERLIN)
    start = instants.parse(midnight.isoformat())
    next_midnight = instants.parse((midnight + timedelta(days=1)).isoformat())
    assert next_midnight - start == durations.parse(f"{hours}h")
    assert start + durations.parse("1d") - next_midnight == (24 - hours) * durations.parse("1h")
