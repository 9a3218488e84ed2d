"""The time zone a person reads times in: their choice, else their browser's, else UTC.

A local time is not always an instant: on the night clocks go forward an hour is missing, and on the
night they go back an hour comes twice. ``resolve`` answers both in words a person can act on.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from urllib.parse import unquote
from zoneinfo import ZoneInfo

COOKIE = "zone"
NAME_MAX = 64
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*\Z")
#: Files beside those of the zones: what this machine is set to, a default of PostgreSQL and libc,
#: and the same zones once more, ``right/`` with leap seconds. Other machines may have none of them.
_NO_ZONES = re.compile(
    r"(?:localtime|posixrules|Factory|(?:posix|right)/.*)\Z"  # check-sql-now: allow
)


class NoSuchLocalTime(ValueError):
    """Clocks skip this local time on that day."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """An instant for a local time, and what to know about it (empty on most days)."""

    instant: datetime
    note: str = ""


def named(name: str | None) -> ZoneInfo | None:
    """The zone of that name, or None when there is none such."""
    if not name or len(name) > NAME_MAX or not _NAME.match(name) or _NO_ZONES.match(name):
        return None
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # a folder; no zone file; no such zone
        return None


def of_person(chosen: str, browser: str | None) -> ZoneInfo:
    """The account's zone; while that is the default, the browser's cookie; else UTC."""
    default = ZoneInfo("UTC")
    if chosen != default.key:
        return named(chosen) or default
    return named(unquote(browser or "")) or default  # browsers encode the slash


def offset_text(instant: datetime, zone: tzinfo) -> str:
    """``UTC+01:00`` as it holds at that instant."""
    offset = instant.astimezone(zone).utcoffset() or timedelta()
    sign = "-" if offset < timedelta() else "+"
    hours, minutes = divmod(int(abs(offset).total_seconds()) // 60, 60)
    return f"UTC{sign}{hours:02d}:{minutes:02d}"


def resolve(local: datetime, zone: tzinfo) -> Resolved:
    """The instant at which clocks in ``zone`` show the naive ``local``.

    Of a time that comes twice the first is taken; the note says so, and how to ask for the second.

    Raises:
        NoSuchLocalTime: clocks jump over it; the message names what they show instead.
    """
    first = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    second = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if first == second:
        return Resolved(first)
    if first.astimezone(zone).replace(tzinfo=None) != local:
        # In a gap fold=0 lands after the jump by as much as the time lies after its beginning.
        resumes = max(first, second).astimezone(zone)
        raise NoSuchLocalTime(
            f"{local:%H:%M} does not exist on {local:%a} {local.day} {local:%b}: clocks go forward "
            f"that night. Try {resumes:%H:%M}."
        )
    return Resolved(
        first,
        f"{local:%H:%M} comes twice that night as clocks go back; this is the first "
        f"({offset_text(first, zone)}). For the second add {offset_text(second, zone)[3:]}.",
    )


def start_of_day(day: date, zone: tzinfo) -> datetime:
    """The first instant of that local day, also where midnight itself is skipped."""
    return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)
