"""A calendar that a calendar program understands, and that is the same bytes for the same data."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from icalendar import Calendar

from reservations.feeds import document
from reservations.feeds.document import Entry, Status

START = datetime(2026, 3, 2, 9, 0, 0, 500_000, tzinfo=timezone(timedelta(hours=1)))


def entry(uid: str = "a@x", **changes: object) -> Entry:
    known = {
        "uid": uid,
        "start": START,
        "end": START + timedelta(hours=8),
        "revised": START - timedelta(days=1),
        "summary": "4 × H100 in main",
        "status": Status.CONFIRMED,
        "sequence": 3,
        "description": "Active.",
        "url": "https://compute.example.org/reservations/rsv_a",
    }
    return Entry(**{**known, **changes})  # type: ignore[arg-type]


def parsed(*entries: Entry) -> list[dict[str, object]]:
    calendar = Calendar.from_ical(document.written("GPUs", entries))
    assert calendar["version"] == "2.0"
    assert calendar["x-wr-calname"] == "GPUs"
    return list(calendar.walk("VEVENT"))


def test_times_are_utc_and_everything_said_comes_back() -> None:
    (event,) = parsed(entry())
    assert event["dtstart"].dt == datetime(2026, 3, 2, 8, tzinfo=UTC)  # type: ignore[attr-defined]
    assert event["dtend"].dt == datetime(2026, 3, 2, 16, 0, 1, tzinfo=UTC)  # type: ignore[attr-defined]
    assert event["dtstamp"].dt == datetime(2026, 3, 1, 8, tzinfo=UTC)  # type: ignore[attr-defined]
    assert (event["uid"], event["status"], event["sequence"]) == ("a@x", "CONFIRMED", 3)
    assert event["url"] == "https://compute.example.org/reservations/rsv_a"


def test_programs_are_told_in_both_ways_how_often_to_read_it() -> None:
    lines = document.written("x", []).decode().split("\r\n")
    assert {"REFRESH-INTERVAL;VALUE=DURATION:PT15M", "X-PUBLISHED-TTL:PT15M"} <= set(lines)


def test_the_same_entries_in_any_order_are_the_same_bytes() -> None:
    entries = [entry(f"{n}@x", start=START + timedelta(hours=n % 2)) for n in range(4)]
    assert document.written("x", entries) == document.written("x", reversed(entries))


# Without backslashes: the library takes one before an N for a line break.
PRINTABLE = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\\")


@given(st.text(alphabet=PRINTABLE, max_size=300))
def test_any_text_comes_back_and_no_line_is_too_long(text: str) -> None:
    raw = document.written("GPUs", [entry(summary=text, description=f"{text}\n{text}")])
    assert all(len(line) <= 75 for line in raw.split(b"\r\n"))
    assert b"\n" not in raw.replace(b"\r\n", b"")
    (event,) = Calendar.from_ical(raw).walk("VEVENT")
    assert str(event["summary"]) == text


@pytest.mark.parametrize("injected", ["x\r\nEND:VEVENT", "x\nATTENDEE:mailto:a@b", "x;y:z,\\n"])
def test_no_text_can_become_a_property(injected: str) -> None:
    (event,) = parsed(entry(summary=injected))
    assert "ATTENDEE" not in event
    assert str(event["summary"]).replace("\r\n", "\n") == injected.replace("\r\n", "\n")


def test_what_is_not_known_is_left_out() -> None:
    (event,) = parsed(entry(sequence=None, description="", url=""))
    assert not {"SEQUENCE", "DESCRIPTION", "URL"} & set(event)
