"""What people write for a start, and what it means in their zone (U2)."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from bettercompute.pages import starts

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(
    2026, 3, 27, 9, 30, 20, tzinfo=UTC
)  # Friday 10:30 in Berlin; clocks change on Sunday

pytestmark = pytest.mark.rule("U2")


def at(text: str, now: datetime = NOW) -> str:
    start = starts.parse(text, now=now, zone=BERLIN).at
    return "" if start is None else f"{start.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


@pytest.mark.parametrize("text", ["", "  ", "now", "NOW", "asap"])
def test_nothing_and_now_are_as_soon_as_it_is_placed(text: str) -> None:
    assert starts.parse(text, now=NOW, zone=BERLIN).at is None


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("14:30", "2026-03-27 13:30:00"),
        ("09:00", "2026-03-28 08:00:00"),  # today's nine has passed
        ("today 18:00", "2026-03-27 17:00:00"),
        ("tomorrow 9am", "2026-03-28 08:00:00"),
        ("Mon 09:00", "2026-03-30 07:00:00"),  # behind the change: an hour earlier in UTC
        ("next monday at 9 am", "2026-03-30 07:00:00"),
        ("Fri 10:00", "2026-04-03 08:00:00"),  # today's ten has passed
        ("fri noon", "2026-03-27 11:00:00"),
        ("1 Dec 08:00", "2026-12-01 07:00:00"),
        ("Dec 1, 8:00", "2026-12-01 07:00:00"),
        ("1 Feb 08:00", "2027-02-01 07:00:00"),  # this year's is over
        ("2026-12-01 08:00", "2026-12-01 07:00:00"),
        ("2026-12-01T08:00", "2026-12-01 07:00:00"),
        ("2026-12-01 08:00Z", "2026-12-01 08:00:00"),
        ("2026-12-01T08:00-05:00", "2026-12-01 13:00:00"),
        ("Mon 09:00 UTC", "2026-03-30 09:00:00"),
        ("in 2h", "2026-03-27 11:31:00"),  # up to the whole minute
        ("in 3 days", "2026-03-30 09:31:00"),
        ("+90 minutes", "2026-03-27 11:01:00"),
    ],
)
def test_a_moment_is_read_in_the_persons_zone(text: str, instant: str) -> None:
    assert at(text) == instant


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("Mon", "Add a time to “mon”"),
        ("2026-12-01", "Add a time"),
        ("25:00", "no time of day"),
        ("13pm", "no time of day"),
        ("30 Feb 09:00", "There is no day"),
        ("someday", "Try Mon 09:00"),
        ("09", "Try Mon 09:00"),
        ("in a while", "Try 8h"),
        ("2026-03-29 02:30", "02:30 does not exist on Sun 29 Mar"),
        ("2026-12-01 08:00+99:00", "no offset"),
        ("in 999999999 weeks", "too far ahead"),
        ("31 Dec 9999 23:59", "a year from 1971 to 9998"),
        ("9999-12-31 23:59 -14:00", "a year from"),
        ("0001-01-01 00:30", "a year from"),
        ("0001-01-01 00:30 +14:00", "a year from"),
    ],
)
def test_what_is_no_moment_says_what_would_be(text: str, advice: str) -> None:
    with pytest.raises(starts.NotUnderstood, match=advice):
        starts.parse(text, now=NOW, zone=BERLIN)


def test_of_a_time_that_comes_twice_the_first_is_taken_and_the_second_can_be_asked_for() -> None:
    first = starts.parse("2026-10-25 02:30", now=NOW, zone=BERLIN)
    assert first.at == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert "add +01:00" in first.note
    second = starts.parse("2026-10-25 02:30 +01:00", now=NOW, zone=BERLIN)
    assert second.at == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert second.note == ""


@pytest.mark.parametrize(
    ("instant", "typed"),
    [
        (datetime(2026, 3, 2, 13, 1, tzinfo=UTC), "2026-03-02 14:01"),
        (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), "2026-10-25 02:30"),
        (datetime(2026, 10, 25, 1, 30, tzinfo=UTC), "2026-10-25 02:30 +01:00"),
        (datetime(2026, 3, 29, 1, 0, tzinfo=UTC), "2026-03-29 03:00"),
    ],
)
def test_an_instant_is_typed_as_it_would_be_read(instant: datetime, typed: str) -> None:
    assert starts.typed(instant, zone=BERLIN) == typed
    assert starts.parse(typed, now=NOW, zone=BERLIN).at == instant


def test_a_broken_minute_is_rounded_up() -> None:
    whole = datetime(2026, 3, 2, 13, 1, tzinfo=UTC)
    assert starts.whole_minute(whole) == whole
    assert starts.whole_minute(whole.replace(microsecond=1)) == whole.replace(minute=2)
