"""Moments as people write and read them at a terminal: in the zone of their machine."""

import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from bettercompute.pages import moments, spans, starts, zones

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCALTIME = Path("/etc/localtime")


def now() -> datetime:
    """What this machine's clock says: "tomorrow" is the person's word. The server decides."""
    return _EPOCH + timedelta(microseconds=time.time_ns() // 1_000)  # check-sql-now: allow


def local_zone(environ: Mapping[str, str] = os.environ) -> ZoneInfo:
    """The machine's zone by its name, which knows its changes of clocks; UTC where it has none."""
    named = environ.get("TZ", "").lstrip(":") or _name_of_localtime()
    return zones.named(named) or ZoneInfo("UTC")


def _name_of_localtime() -> str:
    resolved = str(_LOCALTIME.resolve())
    return resolved.partition("/zoneinfo/")[2]


def from_ms(milliseconds: int) -> datetime:
    """The instant of epoch milliseconds."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def to_ms(at: datetime) -> int:
    """Epoch milliseconds of an instant, rounded down."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


def start_ms(
    text: str, *, now: datetime, zone: tzinfo, param_hint: str = "--start"
) -> tuple[int | None, str]:
    """Epoch milliseconds of a start, None for "as soon as placed", and a note on doubled times.

    Raises:
        click.BadParameter: it is no moment; the message says what would be.
    """
    try:
        found = _iso(text.strip(), zone) or starts.parse(text, now=now, zone=zone)
    except (starts.NotUnderstood, zones.NoSuchLocalTime) as error:
        raise click.BadParameter(str(error), param_hint=param_hint) from error
    if found.at is None:
        return None, found.note
    return round((found.at - _EPOCH) / timedelta(milliseconds=1)), found.note


def _iso(text: str, zone: tzinfo) -> starts.Start | None:
    """ISO 8601 with a time of day, as programs print it; with no offset it is local."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if ":" not in text:
        return None  # a day alone; "add a time to it" is said by the parser of words
    starts.in_reach(moment)
    if moment.tzinfo is not None:
        return starts.Start(moment.astimezone(UTC))
    resolved = zones.resolve(moment, zone)
    return starts.Start(resolved.instant, resolved.note)


def start_in_full(start_ms: int, *, now: datetime, zone: ZoneInfo) -> str:
    """``Mon 9 Mar 09:00 (Europe/Berlin, UTC+01:00; in 6 d)``"""
    start = from_ms(start_ms)
    offset = zones.offset_text(start, zone)
    told = f"{zone.key}, {offset}; {moments.relative(start, now=now)}"
    return f"{moments.text(start, now=now, zone=zone)} ({told})"


def window(start_ms: int, end_ms: int, *, now: datetime, zone: ZoneInfo) -> str:
    """``today 14:00 – 22:00``"""
    return moments.window(from_ms(start_ms), from_ms(end_ms), now=now, zone=zone)


def window_in_full(start_ms: int, end_ms: int, *, now: datetime, zone: ZoneInfo) -> str:
    """The window with its length, zone and how far away it is."""
    start = from_ms(start_ms)
    parts = [
        spans.text(end_ms - start_ms),
        f"{zone.key}, {zones.offset_text(start, zone)}",
        moments.relative(start, now=now) if start > now else "",
    ]
    told = "; ".join(part for part in parts if part)
    return f"{window(start_ms, end_ms, now=now, zone=zone)} ({told})"


def moment(milliseconds: int, *, now: datetime, zone: tzinfo) -> str:
    """``tomorrow 14:00``"""
    return moments.text(from_ms(milliseconds), now=now, zone=zone)
