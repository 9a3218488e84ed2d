"""A calendar as RFC 5545 has it. Pure: the same entries are the same bytes, at any time."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from icalendar import Calendar, Event, vDuration

MEDIA_TYPE = "text/calendar; charset=utf-8"
PRODID = "-//Better Compute//Calendar feed//EN"
REFRESH = timedelta(minutes=15)


class Status(StrEnum):
    """What an entry's time is."""

    CONFIRMED = "CONFIRMED"
    TENTATIVE = "TENTATIVE"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of a calendar.

    ``revised`` is when what it says was last changed: without a clock of ours in it, what has not
    changed stays the same document.
    """

    uid: str
    start: datetime
    end: datetime
    revised: datetime
    summary: str
    status: Status
    sequence: int | None = None
    description: str = ""
    url: str = ""


def written(name: str, entries: Iterable[Entry]) -> bytes:
    """The whole calendar."""
    calendar = Calendar()
    calendar.add("prodid", PRODID)
    calendar.add("version", "2.0")
    calendar.add("calscale", "GREGORIAN")
    calendar.add("name", name)
    calendar.add("x-wr-calname", name)
    calendar.add("refresh-interval", REFRESH, parameters={"value": "DURATION"})
    # Told its type: of a property that is not in the RFC the library would write Python's text.
    calendar.add("x-published-ttl", vDuration(REFRESH))
    for entry in sorted(entries, key=lambda each: (each.start, each.uid)):
        calendar.add_component(_event(entry))
    document: bytes = calendar.to_ical()
    return document


def _event(entry: Entry) -> Event:
    event = Event()
    event.add("uid", entry.uid)
    event.add("dtstamp", _whole_seconds(entry.revised))
    event.add("dtstart", _whole_seconds(entry.start))
    # To the next second: an event must not end before it begins, however short the window.
    event.add("dtend", _whole_seconds(entry.end + timedelta(microseconds=999_999)))
    event.add("summary", entry.summary)
    event.add("status", str(entry.status))
    # Devices are taken, the person's time is not.
    event.add("transp", "TRANSPARENT")
    if entry.sequence is not None:
        event.add("sequence", entry.sequence)
    if entry.description:
        event.add("description", entry.description)
    if entry.url:
        event.add("url", entry.url)
    return event


def _whole_seconds(instant: datetime) -> datetime:
    """In UTC, as the format has it."""
    return instant.astimezone(UTC).replace(microsecond=0)
