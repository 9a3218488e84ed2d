"""A time axis in a person's zone: ticks at local times, right on days of 23 and 25 hours.

Positions are shares of the window in per cent, so a drawing stretches to any width. Every tick is
an instant found from a local wall time; distances between ticks therefore differ on the day clocks
change, as they should.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo

from bettercompute.pages import spans, zones

# Longest window for which a tick every so many hours still has room for its label.
_HOUR_STEPS = (
    (timedelta(hours=14), 1),
    (timedelta(hours=30), 3),
    (timedelta(days=3, hours=1), 6),
    (timedelta(days=5), 12),
)
_DAYS_LABELLED_MAX = 10
_LAST_LABEL_MAX = 93.0  # per cent; a label that begins later would leave the drawing


@dataclass(frozen=True, slots=True)
class Scale:
    """A half-open window and where an instant lies in it."""

    start: datetime
    end: datetime

    def position(self, instant: datetime) -> float:
        """Per cent from the left edge; outside the window it is below 0 or above 100."""
        return (instant - self.start) / (self.end - self.start) * 100

    def clamped(self, instant: datetime) -> float:
        """The position, kept inside the window."""
        return min(100.0, max(0.0, self.position(instant)))


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled instant."""

    x: str
    label: str
    major: bool


@dataclass(frozen=True, slots=True)
class Shift:
    """An instant at which local clocks change."""

    x: str
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """What is drawn above a timeline."""

    days: tuple[Tick, ...]
    hours: tuple[Tick, ...]
    shifts: tuple[Shift, ...]

    @property
    def crowded(self) -> bool:
        """More days than a phone has room to label."""
        return len(self.days) > 4


def percent(value: float) -> str:
    """A share as SVG takes it."""
    return f"{value:.3f}%"


def build(scale: Scale, *, zone: tzinfo) -> Axis:
    """Day and hour ticks and clock changes of the window."""
    days = tuple(_days(scale, zone))
    return Axis(days, tuple(_hours(scale, zone)), tuple(_shifts(scale, zone)))


def _days(scale: Scale, zone: tzinfo) -> list[Tick]:
    day = scale.start.astimezone(zone).date()
    count = (scale.end - scale.start) / timedelta(days=1)
    step = 1 if count <= _DAYS_LABELLED_MAX else 7
    ticks = [_first_day(scale, zone, crowded=count > 3)]
    while (instant := zones.start_of_day(day, zone)) < scale.end:
        if instant >= scale.start and (step == 1 or day.weekday() == 0):
            position = scale.position(instant)
            label = _day_label(instant, zone) if position <= _LAST_LABEL_MAX else ""
            ticks.append(Tick(percent(position), label, True))
        day += timedelta(days=1)
    return [tick for tick in ticks if tick.label or tick.major]


def _first_day(scale: Scale, zone: tzinfo, *, crowded: bool) -> Tick:
    """The day the window begins in, labelled at the edge unless the next label would touch it."""
    tomorrow = scale.start.astimezone(zone).date() + timedelta(days=1)
    room = scale.position(zones.start_of_day(tomorrow, zone))
    starts_day = zones.start_of_day(tomorrow - timedelta(days=1), zone) == scale.start
    enough = room >= (11 if crowded else 16)
    return Tick("0%", _day_label(scale.start, zone) if enough and not starts_day else "", False)


def _day_label(instant: datetime, zone: tzinfo) -> str:
    local = instant.astimezone(zone)
    return f"{local:%a} {local.day} {local:%b}"


def _hours(scale: Scale, zone: tzinfo) -> list[Tick]:
    length = scale.end - scale.start
    step = next((hours for longest, hours in _HOUR_STEPS if length <= longest), 0)
    if step == 0:
        return []
    ticks, day = [], scale.start.astimezone(zone).date()
    while zones.start_of_day(day, zone) < scale.end:
        for hour in range(0, 24, step):
            local = datetime.combine(day, time(hour))
            ticks += [
                Tick(percent(scale.position(instant)), _hour_label(scale, instant, local), False)
                for instant in _instants(local, zone)
                if scale.start <= instant < scale.end
            ]
        day += timedelta(days=1)
    return ticks


def _hour_label(scale: Scale, instant: datetime, local: datetime) -> str:
    return f"{local:%H:%M}" if scale.position(instant) <= _LAST_LABEL_MAX + 2 else ""


def _instants(local: datetime, zone: tzinfo) -> list[datetime]:
    """The instants at which clocks show ``local``: none in a gap, two where it comes twice."""
    found = {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(i for i in found if i.astimezone(zone).replace(tzinfo=None) == local)


def _shifts(scale: Scale, zone: tzinfo) -> list[Shift]:
    shifts, step, instant = [], timedelta(hours=6), scale.start
    while instant < scale.end:
        after = min(instant + step, scale.end)
        if _offset(instant, zone) != _offset(after, zone):
            change = _change(instant, after, zone)
            hours = _offset(change, zone) - _offset(instant, zone)
            shifts.append(Shift(percent(scale.position(change)), _shift_label(hours)))
        instant = after
    return shifts


def _change(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The first instant with the later offset, to the minute, by halving."""
    while after - before > timedelta(minutes=1):
        middle = before + (after - before) / 2
        if _offset(middle, zone) == _offset(before, zone):
            before = middle
        else:
            after = middle
    return after.replace(second=0, microsecond=0)


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()


def _shift_label(change: timedelta) -> str:
    sign = "+" if change > timedelta() else "−"
    return f"clocks {sign}{spans.text(round(abs(change).total_seconds() * 1_000))}"
