"""Moments at a terminal."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import click
import pytest

from bettercompute.cli import times

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)  # Monday 09:00 in Berlin


def at(*parts: int) -> int:
    return round(datetime(*parts, tzinfo=UTC).timestamp() * 1_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mon 09:00", at(2026, 3, 9, 8)),
        ("tomorrow 9am", at(2026, 3, 3, 8)),
        ("in 2h", at(2026, 3, 2, 10)),
        ("2026-03-09T09:00+01:00", at(2026, 3, 9, 8)),
        ("2026-03-09T09:00:30Z", at(2026, 3, 9, 9, 0, 30)),
        ("2026-03-09T09:00:00.250-05:00", at(2026, 3, 9, 14) + 250),
        ("2026-03-09 09:00:30", at(2026, 3, 9, 8, 0, 30)),
        ("2026-04-01 09:00", at(2026, 4, 1, 7)),  # summer time by then
        ("now", None),
    ],
)
def test_a_start_is_read_in_the_local_zone_unless_it_has_an_offset(
    text: str, expected: int | None
) -> None:
    assert times.start_ms(text, now=NOW, zone=BERLIN) == (expected, "")


@pytest.mark.parametrize("text", ["2026-03-29 02:30", "2026-03-29T02:30:00", "29 Mar 02:30"])
def test_a_local_time_that_clocks_skip_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"Try 03:30"):
        times.start_ms(text, now=NOW, zone=BERLIN)


def test_of_a_local_time_that_comes_twice_the_first_is_taken_and_said() -> None:
    found, note = times.start_ms("2026-10-25T02:30:00", now=NOW, zone=BERLIN)
    assert found == at(2026, 10, 25, 0, 30)
    assert "UTC+02:00" in note


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-09",
        "some day",
        "25:00",
        "2026-02-30 09:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "31 Dec 9999 23:59",
    ],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        times.start_ms(text, now=NOW, zone=BERLIN)


@pytest.mark.parametrize(
    ("variable", "name"), [("Asia/Tokyo", "Asia/Tokyo"), (":Europe/Berlin", "Europe/Berlin")]
)
def test_the_zone_is_the_machines(variable: str, name: str) -> None:
    assert times.local_zone({"TZ": variable}).key == name


@pytest.mark.parametrize("variable", ["CET-1CEST", "../etc/passwd", "Nowhere/Land"])
def test_a_zone_without_a_name_is_utc(variable: str) -> None:
    assert times.local_zone({"TZ": variable}).key == "UTC"


def test_a_window_is_shown_with_length_zone_and_distance() -> None:
    shown = times.window_in_full(
        at(2026, 3, 9, 8), at(2026, 3, 9, 16), now=NOW, zone=BERLIN
    ).replace("\u00a0", " ")
    assert shown == "Mon 9 Mar 09:00 – 17:00 (8 h; Europe/Berlin, UTC+01:00; in 7 d)"


def test_a_window_that_runs_has_no_distance() -> None:
    shown = times.window_in_full(at(2026, 3, 2, 7), at(2026, 3, 3, 7), now=NOW, zone=BERLIN)
    assert "in" not in shown.split()
    assert "ago" not in shown


def test_now_is_this_machines_clock() -> None:
    assert times.now().tzinfo is UTC
    assert times.now().year >= 2025
