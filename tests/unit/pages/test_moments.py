"""Instants and windows in words, and zones by name (U2)."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from bettercompute.pages import moments, zones

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 27, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (1, "today 11:30"),
        (24, "tomorrow 10:30"),
        (72, "Mon 30 Mar 11:30"),  # an hour later on the clock: it went forward
        (24 * 300, "Thu 21 Jan 2027 10:30"),
        (-24, "Thu 26 Mar 10:30"),
    ],
)
def test_a_moment_names_its_day_and_the_year_only_when_it_is_another(hours: int, text: str) -> None:
    assert moments.text(NOW + timedelta(hours=hours), now=NOW, zone=BERLIN) == text


def test_a_moment_carries_its_offset_for_whoever_looks_closer() -> None:
    shown = moments.moment(datetime(2026, 7, 1, 12, 0, tzinfo=UTC), now=NOW, zone=BERLIN)
    assert shown.iso == "2026-07-01T12:00:00.000Z"
    assert shown.title == "2026-07-01 14:00:00 UTC+02:00"


def test_a_window_names_the_day_of_its_end_only_when_it_is_another() -> None:
    short = moments.window(NOW, NOW + timedelta(hours=2), now=NOW, zone=BERLIN)
    assert short == "today 10:30 – 12:30"
    long = moments.window(NOW, NOW + timedelta(days=1), now=NOW, zone=BERLIN)
    assert long == "today 10:30 – tomorrow 10:30"


@pytest.mark.parametrize(
    ("month", "day", "says"), [(3, 28, "forward"), (10, 24, "back"), (6, 1, "")]
)
def test_a_change_of_clocks_inside_a_window_is_told(month: int, day: int, says: str) -> None:
    start = datetime(2026, month, day, 12, 0, tzinfo=UTC)
    text = moments.clock_change(start, start + timedelta(days=1), zone=BERLIN)
    assert says in text
    assert bool(text) is bool(says)


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "Europe", "Europe/", "", None, "a" * 99, "\0", "Mars/X"],
)
def test_what_names_no_zone_is_none(name: str | None) -> None:
    assert zones.named(name) is None


@pytest.mark.parametrize(
    "name", ["localtime", "posixrules", "Factory", "right/UTC", "posix/Europe/Berlin"]
)
def test_a_file_of_this_machine_is_no_zone_even_where_it_can_be_read(name: str) -> None:
    assert zones.named(name) is None


@pytest.mark.parametrize(
    ("chosen", "browser", "zone"),
    [
        ("Europe/Berlin", "Asia/Tokyo", "Europe/Berlin"),
        ("UTC", "Asia/Tokyo", "Asia/Tokyo"),
        ("UTC", "Asia%2FTokyo", "Asia/Tokyo"),  # as static/js/zone.js writes it
        ("UTC", None, "UTC"),
        ("UTC", "nonsense", "UTC"),
    ],
)
def test_the_accounts_zone_comes_before_the_browsers(
    chosen: str, browser: str | None, zone: str
) -> None:
    assert zones.of_person(chosen, browser).key == zone
