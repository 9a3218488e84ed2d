"""A preview as the form shows it: whether it fits, where, why not, and what is left. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from bettercompute import clock
from bettercompute.pages import axis, moments, parts, spans, starts, timeline
from bettercompute.wire.capacity import Filter, Preview, PreviewNode, PreviewOccurrence
from bettercompute.wire.capacity import Reason as WireReason
from bettercompute.wire.reasons import never
from pools import presentation as pools
from pools.quota import Usage
from reservations.pages.alternatives_panel import Alternative
from reservations.pages.form import Parsed, Window

_SHOWN_MIN = timedelta(hours=24)
_SHOWN_MAX = timedelta(days=60)

_MOST_NODES_NAMED = 4

# By filter: what stands in the way, and what a person could do about it.
_REASONS: Mapping[Filter, tuple[str, str]] = {
    Filter.POLICY: (
        "A policy or a limit of the pool refuses it",
        "Stay within it, or ask an admin.",
    ),
    Filter.QUOTA: ("Your tenant’s quota has no room for it", "Ask for less, or release something."),
    Filter.BUDGET: ("The budget has no room for it", "Ask for less or for a shorter time."),
    Filter.CLASS: ("No node has so many such devices", "Ask for fewer, or choose another pool."),
    Filter.MODEL: ("No device is what was asked for", "Choose another pool."),
    Filter.TOPOLOGY: (
        "No node has that many so close together",
        "Loosen “Together on” or ask for fewer.",
    ),
    Filter.LABELS: ("Nodes lack a label", "Choose another pool."),
    Filter.CAPABILITY: (
        "Hosts are too small, even with nothing booked",
        "Ask for less CPU or memory per node, or choose another pool.",
    ),
    Filter.TAINT: ("Nodes are reserved for other work", "Choose another pool."),
    Filter.STATE: ("Nodes are not taking reservations", "They are cordoned, silent or unhealthy."),
    Filter.BUSY: (
        "Devices are booked in that window",
        "Start later, or ask for fewer or for less time.",
    ),
    Filter.RESOURCES: ("Hosts have too little CPU or memory left", "Ask for less of it per node."),
    Filter.GANG: ("Too few nodes fit at the same time", "Ask for fewer nodes."),
}

# Of the same filter as a cordon, but it says when it ends.
_MAINTENANCE = ("Maintenance is planned in that time", "Start later, or end before it.")


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing in the way, in plain words."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first start at which it would fit: as a person reads it, and as the form takes it."""

    label: str
    typed: str


@dataclass(frozen=True, slots=True)
class Unbooked:
    """An occurrence that would not be booked, and why."""

    when: str
    why: str


@dataclass(frozen=True, slots=True)
class Panel:
    """The preview panel; ``verdict`` is yes, no or ask."""

    verdict: str
    title: str
    text: str
    notes: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    facts: tuple[parts.Fact, ...] = ()
    quota: tuple[parts.QuotaLine, ...] = ()
    drawing: timeline.Timeline | None = None
    earliest: Earliest | None = None
    #: other times that fit; None: nobody asked for them
    alternatives: tuple[Alternative, ...] | None = None
    may_ask: bool = False
    never: bool = False  # the pool could not serve it at any time
    unbooked: tuple[Unbooked, ...] = ()


def unasked(parsed: Parsed) -> Panel:
    """What to say while the form cannot be previewed yet."""
    if parsed.wrong:
        first = next(iter(parsed.wrong.values()))
        return Panel("ask", "Not quite yet", first, parsed.notes)
    return Panel("ask", "Say what you need", "The preview follows what you type.", parsed.notes)


def refused(message: str, parsed: Parsed) -> Panel:
    """The use case would not judge it at all."""
    return Panel("no", "That cannot be asked for", message, parsed.notes)


def judged(
    preview: Preview,
    parsed: Parsed,
    drawing: timeline.Timeline,
    *,
    quota_before: Sequence[Usage],
    now: datetime,
    zone: tzinfo,
) -> Panel:
    """What a request that could be judged came to."""
    assert parsed.window is not None, "a valid request has a window"
    window = moments.window(parsed.window.start, parsed.window.end, now=now, zone=zone)
    length = spans.text(_milliseconds(parsed.window))
    then = _preempting(preview, length, now=now, zone=zone)
    verdict, title = _verdict(preview)
    return Panel(
        verdict=verdict,
        title=title,
        text=f"{window}, {length}." if then is None else then,
        notes=parsed.notes,
        reasons=tuple(reason(each, now=now, zone=zone) for each in preview.reasons),
        facts=tuple(_facts(preview)),
        quota=_quota(preview, quota_before),
        drawing=drawing,
        earliest=_earliest(preview, now=now, zone=zone),
        never=_never(preview),
        unbooked=tuple(
            _unbooked(each, now=now, zone=zone)
            for each in preview.occurrences or ()
            if not each.fits
        ),
    )


def _verdict(preview: Preview) -> tuple[str, str]:
    """In a word and in a title; of a recurrence, how many times it fits."""
    found = preview.occurrences
    if not found:
        if preview.fits:
            return "yes", "It fits"
        return "no", "It can never fit here" if _never(preview) else "It does not fit"
    fitting, times = sum(each.fits for each in found), parts.count(len(found), "time")
    if fitting == len(found):
        return "yes", f"It fits the next {times}"
    if found[0].fits:
        return "ask", f"It fits {fitting} of the next {times}"
    return "no", "It does not fit the first time"


def _never(preview: Preview) -> bool:
    """Whether the pool could not serve it at all; what else refuses it says nothing of that."""
    refusals = {Filter.POLICY, Filter.QUOTA, Filter.BUDGET}
    return never([each for each in preview.reasons if each.filter not in refusals])


def _unbooked(occurrence: PreviewOccurrence, *, now: datetime, zone: tzinfo) -> Unbooked:
    start, end = clock.from_ms(occurrence.start), clock.from_ms(occurrence.end)
    said = [reason(each, now=now, zone=zone).title for each in occurrence.reasons]
    return Unbooked(moments.window(start, end, now=now, zone=zone), "; ".join(said))


def _preempting(preview: Preview, length: str, *, now: datetime, zone: tzinfo) -> str | None:
    """It starts when others have given way, not when the form says."""
    if preview.preempts is None:
        return None
    start = moments.text(clock.from_ms(preview.preempts.start), now=now, zone=zone)
    them = parts.count(preview.preempts.reservations, "spot reservation")
    who = f" {them} will give way to it." if preview.preempts.reservations else ""
    return f"It starts {start}, for {length}.{who}"


def _earliest(preview: Preview, *, now: datetime, zone: tzinfo) -> Earliest | None:
    if preview.earliest is None:
        return None
    start = starts.whole_minute(clock.from_ms(preview.earliest))
    return Earliest(moments.text(start, now=now, zone=zone), starts.typed(start, zone=zone))


def scale(window: Window | None, *, now: datetime) -> axis.Scale:
    """What to draw: the window with room around it, and now as long as that is near."""
    if window is None:
        return axis.Scale(now - timedelta(hours=1), now + _SHOWN_MIN * 2)
    length = min(max(window.end - window.start, _SHOWN_MIN), _SHOWN_MAX)
    near = window.start - now <= length
    start = now - length / 24 if near else window.start - length / 4
    return axis.Scale(start, min(window.end + length / 4, start + _SHOWN_MAX))


def proposal(window: Window | None, preview: Preview) -> timeline.Proposal | None:
    """The window as drawn, on the devices it would take."""
    if window is None:
        return None
    taken = frozenset(device for node in preview.nodes for device in node.device_ids)
    return timeline.Proposal(window.start, window.end, preview.fits, taken)


def _milliseconds(window: Window) -> int:
    return (window.end - window.start) // timedelta(milliseconds=1)


def reason(found: WireReason, *, now: datetime, zone: tzinfo) -> Reason:
    """One reason as a person reads it."""
    is_maintenance = found.filter is Filter.STATE and found.until is not None
    title, advice = _MAINTENANCE if is_maintenance else _REASONS[found.filter]
    if found.nodes:
        title = f"{title}: {parts.count(found.nodes, 'node')}"
    # What nodes fail is a thing that they would need; what a policy or a quota says is whole.
    words = [parts.sentence(f"needs {found.needs}" if found.nodes else found.needs)]
    if found.samples:
        words.append(f"For instance {', '.join(found.samples[:_MOST_NODES_NAMED])}.")
    if found.most is not None:
        words.append(f"There is at most {found.most}, even with nothing booked.")
    if found.until is not None:
        until = moments.text(clock.from_ms(found.until), now=now, zone=zone)
        words.append(f"The first of them is free again {until}.")
    return Reason(title, " ".join([*(word for word in words if word), advice]))


def _facts(preview: Preview) -> list[parts.Fact]:
    facts = []
    if preview.nodes:
        facts.append(parts.Fact("Nodes", _nodes(preview.nodes)))
    facts.append(parts.Fact("GPU-hours", parts.number(preview.quote.gpu_hours)))
    if preview.quote.price:
        price = f"{preview.quote.price} {preview.quote.currency or ''}".strip()
        facts.append(parts.Fact("Price", price))
    return facts


def _nodes(nodes: Sequence[PreviewNode]) -> str:
    named = [
        f"{node.name} ({parts.count(len(node.device_ids), 'device')})"
        for node in nodes[:_MOST_NODES_NAMED]
    ]
    more = len(nodes) - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _quota(preview: Preview, before: Sequence[Usage]) -> tuple[parts.QuotaLine, ...]:
    """What the quotas would be; what is new in them is drawn in another colour."""
    used = {usage.key: usage.used for usage in before}
    after = [
        Usage(row.resource, row.used, row.max, row.pool_id, row.pool_offer_id)
        for row in preview.quota_after
    ]
    added = {row.key: row.used - used.get(row.key, 0) for row in after}
    return pools.quota_lines(after, added=added)
