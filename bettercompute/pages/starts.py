"""When a reservation should begin, as people write it: ``Mon 09:00``, ``tomorrow 9am``, ``in 2h``.

Times are read in the person's zone unless the text ends with an offset (``Mon 02:30 +01:00``).
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

from bettercompute.pages import spans, zones

EXAMPLES = "Mon 09:00, tomorrow 9am, 14:30, 1 Dec 08:00, 2026-12-01 08:00 or in 2h"

YEAR_MIN = 1971
YEAR_MAX = 9998

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = (
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
)  # fmt: skip
_OFFSET = re.compile(r"\s*(?:(z|utc|gmt)|(?:utc|gmt)?([+-])(\d{2}):?(\d{2}))\Z")
_CLOCK = re.compile(r"(?:(?:at\s+)?(\d{1,2})(?::(\d{2}))?\s*(am|pm)?|(noon|midnight))\Z")
_ISO_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})\Z")
_DAY_MONTH = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?\s+([a-z]{3})[a-z]*(?:\s+(\d{4}))?\Z")
_MONTH_DAY = re.compile(r"([a-z]{3})[a-z]*\s+(\d{1,2})(?:st|nd|rd|th)?(?:,?\s+(\d{4}))?\Z")


class NotUnderstood(ValueError):
    """The text names no moment; the message says what would."""


@dataclass(frozen=True, slots=True)
class Start:
    """When to begin: None is as soon as it is placed. The note tells of a doubled local time."""

    at: datetime | None
    note: str = ""


def parse(text: str, *, now: datetime, zone: tzinfo) -> Start:
    """What a person meant, seen from ``now`` in their ``zone``; a bare time is the next such time.

    Raises:
        NotUnderstood: it is not a moment, or clocks skip that local time.
    """
    words = " ".join(text.lower().replace(",", " ").split())
    if words in ("", "now", "asap"):
        return Start(None)
    if words.startswith(("in ", "+")):
        return Start(_from_now(now, _span(words.removeprefix("in ").lstrip("+ "))))
    words, offset = _split_offset(words)
    in_zone = offset or zone
    local_now = now.astimezone(in_zone).replace(tzinfo=None)
    local = in_reach(_local(words, local_now))
    if offset is not None:
        return Start(local.replace(tzinfo=offset).astimezone(UTC))
    try:
        resolved = zones.resolve(local, zone)
    except zones.NoSuchLocalTime as error:
        raise NotUnderstood(str(error)) from error
    return Start(resolved.instant, resolved.note)


def in_reach(local: datetime) -> datetime:
    """The local time, where it is an instant in every zone.

    Raises:
        NotUnderstood: some zone would have it before 1970 or behind the year 9999.
    """
    if not YEAR_MIN <= local.year <= YEAR_MAX:
        raise NotUnderstood(f"Give a year from {YEAR_MIN} to {YEAR_MAX}.")
    return local


def typed(instant: datetime, *, zone: tzinfo) -> str:
    """The instant, in whole minutes, as a person in ``zone`` would type it for ``parse``."""
    local = instant.astimezone(zone)
    text = f"{local:%Y-%m-%d %H:%M}"
    with suppress(zones.NoSuchLocalTime):
        if zones.resolve(local.replace(tzinfo=None, fold=0), zone).instant == instant:
            return text
    return f"{text} {zones.offset_text(instant, zone).removeprefix('UTC')}"  # the second 02:30


def whole_minute(instant: datetime) -> datetime:
    """Rounded up."""
    whole = instant.replace(second=0, microsecond=0)
    return whole if whole == instant else whole + timedelta(minutes=1)


def _from_now(now: datetime, milliseconds: int) -> datetime:
    """Rounded up, so that the same words sent twice in a row are the same request."""
    try:
        return whole_minute(now + timedelta(milliseconds=milliseconds))
    except OverflowError as error:
        raise NotUnderstood("That is too far ahead.") from error


def _span(words: str) -> int:
    try:
        return spans.parse(words)
    except spans.NotUnderstood as error:
        raise NotUnderstood(str(error)) from error


def _split_offset(words: str) -> tuple[str, timezone | None]:
    match = _OFFSET.search(words)
    # A date alone ends like an offset: 2026-12-01 is no "2026 at -12:01".
    if match is None or _ISO_DAY.match(words):
        return words, None
    rest = words[: match.start()]
    if match[1]:
        return rest, UTC
    delta = timedelta(hours=int(match[3]), minutes=int(match[4]))
    if delta >= timedelta(hours=24):
        raise NotUnderstood(f"{match[0].strip()} is no offset from UTC.")
    return rest, timezone(-delta if match[2] == "-" else delta)


def _local(words: str, now: datetime) -> datetime:
    """The naive local time that the words name."""
    words = re.sub(r"(\d)t(\d)", r"\1 \2", words)
    day_words, clock_words = _split_clock(words)
    clock = _clock(clock_words)
    if not day_words:
        today = datetime.combine(now.date(), clock)
        return today if today > now else today + timedelta(days=1)
    day = _day(day_words, now)
    if day_words.removeprefix("next ")[:3] in _DAYS and datetime.combine(day, clock) <= now:
        day += timedelta(days=7)
    return datetime.combine(day, clock)


def _split_clock(words: str) -> tuple[str, str]:
    """Parts such as ``('mon', '09:00')``: the shortest head whose tail reads as a time of day."""
    parts = words.split(" ")
    for cut in range(len(parts)):
        tail = " ".join(parts[cut:])
        if _CLOCK.match(tail) and (":" in tail or not tail.isdigit()):
            return " ".join(parts[:cut]), tail
    if _names_day(words):
        raise NotUnderstood(f"Add a time to “{words}”, such as {words} 09:00.")
    raise NotUnderstood(f"Not a time we understand. Try {EXAMPLES}.")


def _names_day(words: str) -> bool:
    try:
        _day(words, datetime(2000, 1, 1))  # noqa: DTZ001  (only asks whether the words parse)
    except NotUnderstood:
        return False
    return True


def _clock(words: str) -> time:
    match = _CLOCK.match(words)
    assert match is not None, "split by the same pattern"
    if match[4]:
        return time(12 if match[4] == "noon" else 0)
    hour, minute = int(match[1]), int(match[2] or 0)
    if match[3]:
        if not 1 <= hour <= 12:
            raise NotUnderstood(f"{words} is no time of day.")
        hour = hour % 12 + (12 if match[3] == "pm" else 0)
    if hour > 23 or minute > 59:
        raise NotUnderstood(f"{words} is no time of day.")
    return time(hour, minute)


def _day(words: str, now: datetime) -> date:
    if words in ("today", "tomorrow"):
        return now.date() + timedelta(days=words == "tomorrow")
    name = words.removeprefix("next ")
    if name.isalpha() and len(name) >= 3 and name[:3] in _DAYS:
        return now.date() + timedelta(days=(_DAYS.index(name[:3]) - now.weekday()) % 7)
    if iso := _ISO_DAY.match(words):
        return _date(int(iso[1]), int(iso[2]), int(iso[3]), words)
    if match := _DAY_MONTH.match(words):
        return _next_date(match[3], match[2], match[1], now, words)
    if match := _MONTH_DAY.match(words):
        return _next_date(match[3], match[1], match[2], now, words)
    raise NotUnderstood(f"Not a time we understand. Try {EXAMPLES}.")


def _next_date(year: str | None, month: str, day: str, now: datetime, words: str) -> date:
    """That date, this year or else next: a date without a year is never in the past."""
    if month not in _MONTHS:
        raise NotUnderstood(f"Not a time we understand. Try {EXAMPLES}.")
    number = _MONTHS.index(month) + 1
    if year:
        return _date(int(year), number, int(day), words)
    this_year = _date(now.year, number, int(day), words)
    return this_year if this_year >= now.date() else _date(now.year + 1, number, int(day), words)


def _date(year: int, month: int, day: int, words: str) -> date:
    try:
        return date(year, month, day)
    except ValueError as error:
        raise NotUnderstood(f"There is no day “{words}”.") from error
