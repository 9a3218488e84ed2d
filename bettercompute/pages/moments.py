"""Instants as people read them: in their zone, with the year only when it is another one."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from bettercompute.pages import spans, zones


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant, ready to print."""

    iso: str
    text: str
    title: str


def moment(instant: datetime, *, now: datetime, zone: tzinfo) -> Moment:
    """``Mon 1 Dec 09:00``, with seconds and the zone's offset in the title."""
    return Moment(
        iso=iso(instant),
        text=text(instant, now=now, zone=zone),
        title=f"{instant.astimezone(zone):%Y-%m-%d %H:%M:%S} {zones.offset_text(instant, zone)}",
    )


def iso(instant: datetime) -> str:
    """For programs: UTC with milliseconds."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def text(instant: datetime, *, now: datetime, zone: tzinfo) -> str:
    """Day and time in the zone; today's and tomorrow's days by name."""
    local, today = instant.astimezone(zone), now.astimezone(zone).date()
    if local.date() == today:
        return f"today {local:%H:%M}"
    if local.date() == today + timedelta(days=1):
        return f"tomorrow {local:%H:%M}"
    year = f" {local.year}" if local.year != today.year else ""
    return f"{local:%a} {local.day} {local:%b}{year} {local:%H:%M}"


def relative(instant: datetime, *, now: datetime) -> str:
    """``in 2 h 5 min``, ``3 d ago`` or ``now``."""
    milliseconds = round((instant - now).total_seconds() * 1_000)
    if abs(milliseconds) < 1_000:
        return "now"
    length = spans.text(abs(milliseconds))
    return f"in {length}" if milliseconds > 0 else f"{length} ago"


def window(start: datetime, end: datetime, *, now: datetime, zone: tzinfo) -> str:
    """``today 14:00 – 22:00``: the day of the end only when it is another one."""
    first, last = start.astimezone(zone), end.astimezone(zone)
    tail = f"{last:%H:%M}" if first.date() == last.date() else text(end, now=now, zone=zone)
    return f"{text(start, now=now, zone=zone)} – {tail}"


def clock_change(start: datetime, end: datetime, *, zone: tzinfo) -> str:
    """What the window's local times hide when clocks change inside it, else nothing."""
    before, after = start.astimezone(zone).utcoffset(), end.astimezone(zone).utcoffset()
    if before == after or before is None or after is None:
        return ""
    way, amount = ("forward", after - before) if after > before else ("back", before - after)
    length = spans.text(round(amount.total_seconds() * 1_000))
    return (
        f"Clocks go {way} {length} during this window; its length stays exactly what you asked for."
    )
