"""A pool's bookings over time, laid out for drawing: pure, so that it can be tested without a page.

Small pools show one lane a device, grouped by node; a booking of several neighbouring devices for
the same time is one block. Large pools show how much of the capacity is booked, step by step, since
nobody reads a thousand lanes. Beside either there is the same in words, as rows of a table.

Whose a booking is decides how much of it is told: ``MINE`` and ``TENANT`` carry a label and a link,
``FOREIGN`` carries neither.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum
from itertools import groupby, pairwise

from bettercompute.pages import axis, moments

LANES_MAX = 64  # more devices than this are drawn as an area
LANE_HEIGHT = 15
# A label is left out where it would be cut: at about 7 px a letter and 6.5 px a per cent of the
# narrowest desktop track.
_LETTERS_PER_PERCENT = 0.95


class Whose(StrEnum):
    """What a block of time is to the person who looks."""

    MINE = "mine"
    TENANT = "tenant"
    FOREIGN = "foreign"
    CHANGE = "change"  # the node's devices are being reconfigured
    MAINTENANCE = "maintenance"  # announced; nothing is booked over it


WORDS = {
    Whose.MINE: "yours",
    Whose.TENANT: "your tenant",
    Whose.FOREIGN: "another tenant",
    Whose.CHANGE: "node change",
    Whose.MAINTENANCE: "maintenance",
}


@dataclass(frozen=True, slots=True)
class Device:
    """One bookable device."""

    id: str
    node: str
    model: str


@dataclass(frozen=True, slots=True)
class Booking:
    """The time of one device, taken by one allocation."""

    device_id: str
    allocation_id: str
    start: datetime
    end: datetime
    whose: Whose
    label: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A window somebody considers; the devices it would take when it fits."""

    start: datetime
    end: datetime
    fits: bool
    device_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Block:
    """A drawn booking: lanes ``top`` to ``top + lanes`` of its group."""

    x: str
    width: str
    y: int
    height: int
    whose: Whose
    label: str
    href: str
    title: str


@dataclass(frozen=True, slots=True)
class Group:
    """A node and the lanes of its devices."""

    name: str
    caption: str
    lanes: tuple[str, ...]
    height: int
    blocks: tuple[Block, ...]
    proposed: tuple[Block, ...]

    @property
    def lines(self) -> tuple[int, ...]:
        """Where one lane ends and the next begins."""
        return tuple(range(LANE_HEIGHT, self.height, LANE_HEIGHT))


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch in which the same number of devices is booked, as stacked shares of the height."""

    x: str
    width: str
    layers: tuple["Layer", ...]
    title: str


@dataclass(frozen=True, slots=True)
class Layer:
    """One colour of a step."""

    y: str
    height: str
    whose: Whose


@dataclass(frozen=True, slots=True)
class Row:
    """A booking in words."""

    devices: str
    start: moments.Moment
    end: moments.Moment
    whose: str
    label: str
    href: str


@dataclass(frozen=True, slots=True)
class Band:
    """The proposed window across the whole drawing."""

    x: str
    width: str
    fits: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """All that a template needs to draw it."""

    axis: axis.Axis
    groups: tuple[Group, ...]
    steps: tuple[Step, ...]
    devices: int
    now_x: str
    band: Band | None
    rows: tuple[Row, ...]
    zone: str
    summary: str

    @property
    def is_area(self) -> bool:
        """Drawn as one area of capacity rather than in lanes."""
        return not self.groups


def build(
    devices: Sequence[Device],
    bookings: Iterable[Booking],
    *,
    scale: axis.Scale,
    now: datetime,
    zone: tzinfo,
    proposal: Proposal | None = None,
) -> Timeline:
    """Lay out the bookings that touch the window."""
    frame = _Frame(scale, now, zone, proposal)
    known = {device.id for device in devices}
    seen = [b for b in bookings if b.device_id in known and _touches(b, scale)]
    lanes = len(devices) <= LANES_MAX
    now_inside = scale.start <= now < scale.end
    return Timeline(
        axis=axis.build(scale, zone=zone),
        groups=tuple(_groups(devices, seen, frame)) if lanes else (),
        steps=() if lanes else tuple(_steps(len(devices), seen, frame)),
        devices=len(devices),
        now_x=axis.percent(scale.position(now)) if now_inside else "",
        band=_band(proposal, scale),
        rows=tuple(_rows(devices, seen, now, zone)),
        zone=str(zone),
        summary=_summary(len(devices), seen, now),
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """What every part of one drawing shares."""

    scale: axis.Scale
    now: datetime
    zone: tzinfo
    proposal: Proposal | None

    def window(self, start: datetime, end: datetime) -> str:
        return moments.window(start, end, now=self.now, zone=self.zone)


def _touches(booking: Booking, scale: axis.Scale) -> bool:
    return booking.start < scale.end and booking.end > scale.start


def _band(proposal: Proposal | None, scale: axis.Scale) -> Band | None:
    if proposal is None or proposal.start >= scale.end or proposal.end <= scale.start:
        return None
    x, width = _extent(proposal.start, proposal.end, scale)
    return Band(axis.percent(x), axis.percent(width), proposal.fits)


def _extent(start: datetime, end: datetime, scale: axis.Scale) -> tuple[float, float]:
    left = scale.clamped(start)
    return left, scale.clamped(end) - left


def _groups(
    devices: Sequence[Device], bookings: Sequence[Booking], frame: _Frame
) -> Iterable[Group]:
    for node, members in groupby(devices, key=lambda device: device.node):
        listed = list(members)
        lanes = {device.id: number for number, device in enumerate(listed)}
        here = [booking for booking in bookings if booking.device_id in lanes]
        yield Group(
            name=node,
            caption=_caption(listed),
            lanes=tuple(str(number) for number in range(len(listed))),
            height=len(listed) * LANE_HEIGHT,
            blocks=tuple(_blocks(here, lanes, frame)),
            proposed=tuple(_proposed(lanes, frame)),
        )


def _caption(devices: Sequence[Device]) -> str:
    models = sorted({device.model for device in devices})
    return " + ".join(f"{sum(d.model == model for d in devices)} × {model}" for model in models)


def _blocks(bookings: Sequence[Booking], lanes: dict[str, int], frame: _Frame) -> Iterable[Block]:
    """One block a run of neighbouring lanes that one allocation holds for the same time."""

    def extent(booking: Booking) -> tuple[datetime, datetime, str]:
        return booking.start, booking.end, booking.allocation_id

    for _, members in groupby(sorted(bookings, key=extent), key=extent):
        same = list(members)
        sample = same[0]
        x, width = _extent(sample.start, sample.end, frame.scale)
        window = frame.window(sample.start, sample.end)
        for top, count in _runs(lanes[booking.device_id] for booking in same):
            yield Block(
                x=axis.percent(x),
                width=axis.percent(width),
                y=top * LANE_HEIGHT,
                height=count * LANE_HEIGHT,
                whose=sample.whose,
                label=_fitting(sample.label, width),
                href=sample.href,
                title=f"{sample.label or WORDS[sample.whose]}: {window}",
            )


def _proposed(lanes: dict[str, int], frame: _Frame) -> Iterable[Block]:
    proposal = frame.proposal
    if proposal is None:
        return
    x, width = _extent(proposal.start, proposal.end, frame.scale)
    if width <= 0:
        return
    chosen = [number for device_id, number in lanes.items() if device_id in proposal.device_ids]
    for top, count in _runs(chosen):
        yield Block(
            x=axis.percent(x),
            width=axis.percent(width),
            y=top * LANE_HEIGHT,
            height=count * LANE_HEIGHT,
            whose=Whose.MINE,
            label=_fitting("proposed", width),
            href="",
            title="Your window",
        )


def _fitting(label: str, width: float) -> str:
    return label if len(label) + 2 <= width * _LETTERS_PER_PERCENT else ""


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of consecutive numbers as (first, how many)."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and number == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    return runs


def _steps(capacity: int, bookings: Sequence[Booking], frame: _Frame) -> Iterable[Step]:
    """What is booked between each two instants at which that changes, as a running sum."""
    changes = _changes(bookings, frame.scale)
    booked: Counter[Whose] = Counter()
    for start, end in pairwise(sorted(changes)):
        booked.update(changes[start])
        x, width = _extent(start, end, frame.scale)
        free = max(0, capacity - booked.total())
        yield Step(
            x=axis.percent(x),
            width=axis.percent(width),
            layers=tuple(_layers(booked, capacity)),
            title=f"{free} of {capacity} free: {frame.window(start, end)}",
        )


def _changes(bookings: Sequence[Booking], scale: axis.Scale) -> dict[datetime, Counter[Whose]]:
    """By how much the number of booked devices rises or falls, at each instant it does."""
    changes: defaultdict[datetime, Counter[Whose]] = defaultdict(Counter)
    for edge in (scale.start, scale.end):
        changes[edge] = Counter()
    for booking in bookings:
        changes[max(booking.start, scale.start)][booking.whose] += 1
        changes[min(booking.end, scale.end)][booking.whose] -= 1
    return changes


def _layers(booked: Counter[Whose], capacity: int) -> Iterable[Layer]:
    """Stacked from the bottom, one's own first."""
    below = 0
    for whose in Whose:
        if booked[whose]:
            below += booked[whose]
            top = (1 - below / capacity) * 100
            yield Layer(
                axis.percent(max(0.0, top)), axis.percent(booked[whose] / capacity * 100), whose
            )


def _rows(
    devices: Sequence[Device], bookings: Sequence[Booking], now: datetime, zone: tzinfo
) -> Iterable[Row]:
    """One row an allocation and window, in order of time."""
    nodes = {device.id: device.node for device in devices}

    def extent(booking: Booking) -> tuple[datetime, datetime, str, str]:
        return booking.start, booking.end, nodes[booking.device_id], booking.allocation_id

    for _, members in groupby(sorted(bookings, key=extent), key=extent):
        same = list(members)
        sample = same[0]
        yield Row(
            devices=f"{len(same)} on {nodes[sample.device_id]}",
            start=moments.moment(sample.start, now=now, zone=zone),
            end=moments.moment(sample.end, now=now, zone=zone),
            whose=WORDS[sample.whose],
            label=sample.label,
            href=sample.href,
        )


def _summary(capacity: int, bookings: Sequence[Booking], now: datetime) -> str:
    taken = len({b.device_id for b in bookings if b.start <= now < b.end})
    free = f"{capacity - taken} of {capacity} devices are free now"
    return f"{free}; {len(bookings)} bookings of a device are shown."
