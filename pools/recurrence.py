"""A repeating window: a part of RFC 5545's RRULE, in a named zone. Pure.

What repeats is a *local* time: 15:00 stays 15:00 when clocks change, so two occurrences may be 23
or 25 hours apart. Days come from ``dateutil``'s rrule; which instant a local time is, from the
zone:

- a time that clocks skip (02:30 on the night they go forward) is read with the offset before the
  gap, and so begins an hour later by the clock, at 03:30;
- a time that comes twice is its first.

Both are RFC 5545's reading of a local time (section 3.3.5). The RFC also says, in 3.3.10, that what
does not exist is left out; a booking that is an hour late by the clock serves its owner better than
one that is silently missing. How long an occurrence is does not depend on clocks: 8 h are 8 h.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from dateutil import rrule

from bettercompute import errors
from bettercompute.pages import zones
from bettercompute.wire import reservations as wire

DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
INTERVAL_MAX = 366
COUNT_MAX = 2_000
YEARS_MAX = 5
DAY_MS = 86_400_000

ALLOWED = (
    "FREQ=DAILY or FREQ=WEEKLY, then as needed INTERVAL=2, BYDAY=MO,WE (weekly only), and one of"
    " UNTIL=20270301 (the last day), UNTIL=20270301T150000Z or COUNT=10"
)

_UNTIL_DAY = re.compile(r"[0-9]{8}\Z")
_UNTIL_INSTANT = re.compile(r"[0-9]{8}T[0-9]{6}Z\Z")
_NUMBER = re.compile(r"[1-9][0-9]{0,4}\Z")

Frequency = Literal["DAILY", "WEEKLY"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Which days, how often, and until when. ``days`` are weekdays from Monday as 0."""

    frequency: Frequency
    interval: int = 1
    days: tuple[int, ...] = ()
    until: date | datetime | None = None
    count: int | None = None

    @property
    def text(self) -> str:
        """The rule as RFC 5545 writes it, always in the same way."""
        parts = [f"FREQ={self.frequency}"]
        if self.interval > 1:
            parts.append(f"INTERVAL={self.interval}")
        if self.days:
            parts.append(f"BYDAY={','.join(DAYS[day] for day in self.days)}")
        if isinstance(self.until, datetime):
            parts.append(f"UNTIL={self.until:%Y%m%dT%H%M%SZ}")
        elif self.until is not None:
            parts.append(f"UNTIL={self.until:%Y%m%d}")
        if self.count is not None:
            parts.append(f"COUNT={self.count}")
        return ";".join(parts)

    @property
    def gap_days(self) -> int:
        """The fewest days from one occurrence to the next."""
        if self.frequency == "DAILY":
            return self.interval
        weeks = [*self.days, self.days[0] + 7 * self.interval]
        return min(after - before for before, after in itertools.pairwise(weeks))


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A rule in a zone, from the local time at which the first occurrence begins."""

    rule: Rule
    zone: ZoneInfo
    first: datetime  # naive: what clocks in the zone show

    @property
    def document(self) -> dict[str, str]:
        """As a request holds it."""
        return {"rule": self.rule.text, "timeZone": self.zone.key}

    def from_first(self) -> "Recurrence":
        """The same, told from the first day that the rule has, which may be behind the start's."""
        day = next(self._days())
        return replace(self, first=datetime.combine(day, self.first.time()))

    def starts(self) -> Iterator[datetime]:
        """When occurrences begin, in order, as instants; without UNTIL and COUNT for ever."""
        for day in self._days():
            start = instant(datetime.combine(day, self.first.time()), self.zone)
            if self._is_past_until(start, day):
                return
            yield start

    def starts_after(self, moment: datetime) -> Iterator[datetime]:
        """Those that begin after an instant."""
        return (start for start in self.starts() if start > moment)

    def _days(self) -> Iterator[date]:
        rule = self.rule
        weekly = rule.frequency == "WEEKLY"
        found = rrule.rrule(
            rrule.WEEKLY if weekly else rrule.DAILY,
            # Days only: rrule drops what is finer than a second, and knows no zone that skips one.
            dtstart=datetime.combine(self.first.date(), time()),
            interval=rule.interval,
            byweekday=rule.days if weekly else None,
            count=rule.count,
        )
        return (each.date() for each in found)

    def _is_past_until(self, start: datetime, day: date) -> bool:
        until = self.rule.until
        if isinstance(until, datetime):
            return start > until
        return until is not None and day > until


def instant(local: datetime, zone: ZoneInfo) -> datetime:
    """The instant at which clocks in the zone show a naive time; see the module for odd nights."""
    return local.replace(tzinfo=zone, fold=0).astimezone(UTC)


def normalise(
    wanted: wire.Recurrence,
    *,
    start: datetime,
    duration_ms: int,
    wrong: list[errors.FieldError],
) -> Recurrence | None:
    """What a request asks for; what is wrong with it is added to ``wrong``, by field."""
    zone = zones.named(wanted.time_zone)
    if zone is None:
        message = "is no zone of the tz database, such as Europe/Berlin"
        wrong.append(errors.FieldError("recurrence.timeZone", message))
        return None
    local = start.astimezone(zone)
    try:
        rule = parse(wanted.rule, weekday=local.weekday())
    except NotUnderstood as error:
        wrong.append(errors.FieldError("recurrence.rule", str(error)))
        return None
    if local.fold:
        message = f"is the second {local:%H:%M} of that night in {zone.key}; a recurrence takes the"
        wrong.append(errors.FieldError("start", f"{message} first"))
        return None
    found = Recurrence(rule, zone, local.replace(tzinfo=None)).from_first()
    wrong.extend(_contradictions(found, duration_ms))
    return found


class NotUnderstood(ValueError):
    """The rule is none of those that are allowed; the message names the part and what is."""


def parse(text: str, *, weekday: int) -> Rule:
    """A rule; weekly without BYDAY repeats on ``weekday``, the day of the start.

    Raises:
        NotUnderstood: it has another part, or one twice, or a value that is not allowed.
    """
    parts = _parts(text)
    frequency = _frequency(parts.get("FREQ"))
    if frequency == "DAILY" and "BYDAY" in parts:
        raise NotUnderstood("BYDAY is only for FREQ=WEEKLY; for workdays: BYDAY=MO,TU,WE,TH,FR")
    if "UNTIL" in parts and "COUNT" in parts:
        raise NotUnderstood("UNTIL and COUNT exclude each other; give one")
    weekly_days = _weekdays(parts["BYDAY"]) if "BYDAY" in parts else (weekday,)
    return Rule(
        frequency=frequency,
        interval=_number(parts, "INTERVAL", INTERVAL_MAX) or 1,
        days=weekly_days if frequency == "WEEKLY" else (),
        until=_until(parts["UNTIL"]) if "UNTIL" in parts else None,
        count=_number(parts, "COUNT", COUNT_MAX),
    )


def _parts(text: str) -> Mapping[str, str]:
    parts: dict[str, str] = {}
    for part in text.upper().split(";"):
        name, equals, value = part.partition("=")
        if name not in {"FREQ", "INTERVAL", "BYDAY", "UNTIL", "COUNT"} or not equals:
            raise NotUnderstood(f"{part[:40] or 'an empty part'} is not allowed; {ALLOWED}")
        if name in parts:
            raise NotUnderstood(f"has {name} twice")
        parts[name] = value
    return parts


def _frequency(text: str | None) -> Frequency:
    match text:
        case "DAILY" | "WEEKLY":
            return text
        case _:
            raise NotUnderstood(f"must be {ALLOWED}")


def _number(parts: Mapping[str, str], name: str, maximum: int) -> int | None:
    text = parts.get(name)
    if text is None:
        return None
    if not _NUMBER.match(text) or int(text) > maximum:
        raise NotUnderstood(f"{name} must be a whole number from 1 to {maximum}")
    return int(text)


def _weekdays(text: str) -> tuple[int, ...]:
    days = text.split(",")
    if not set(days) <= set(DAYS) or len(set(days)) < len(days):
        raise NotUnderstood(f"BYDAY must be some of {','.join(DAYS)}, each once")
    return tuple(sorted(DAYS.index(day) for day in days))


def _until(text: str) -> date | datetime:
    try:
        if _UNTIL_DAY.match(text):
            return datetime.strptime(f"{text}Z", "%Y%m%d%z").date()
        if _UNTIL_INSTANT.match(text):
            return datetime.strptime(text, "%Y%m%dT%H%M%S%z").astimezone(UTC)
    except ValueError:
        pass
    raise NotUnderstood("UNTIL must be a day (20270301) or an instant in UTC (20270301T150000Z)")


def _contradictions(found: Recurrence, duration_ms: int) -> Iterator[errors.FieldError]:
    gap_days = found.rule.gap_days
    if duration_ms > gap_days * DAY_MS:
        longest = "a day" if gap_days == 1 else f"{gap_days} days"
        message = f"must be at most {longest}, so that each occurrence ends before the next begins"
        yield errors.FieldError("duration", message)
    first = next(found.starts(), None)
    if first is None:
        yield errors.FieldError("recurrence.rule", "ends before it begins")
    elif _ends_behind(found, first + timedelta(days=366 * YEARS_MAX)):
        message = f"must end at most {YEARS_MAX} years after its first occurrence"
        yield errors.FieldError("recurrence.rule", message)


def _ends_behind(found: Recurrence, latest: datetime) -> bool:
    """Whether a rule that says where it ends goes on for too long; one that does not may."""
    rule = found.rule
    if isinstance(rule.until, datetime):
        return rule.until > latest
    if rule.until is not None:
        return rule.until > latest.date()
    return rule.count is not None and any(start > latest for start in found.starts())
