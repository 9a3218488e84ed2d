"""Reservations as pages show them: from answers to frozen, printable parts. Pure: reads nothing."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import assert_never

from django.urls import reverse

from bettercompute import clock, states, wanted
from bettercompute.pages import chips, endings, moments, parts, spans
from bettercompute.states import AllocationState
from bettercompute.states import ReservationState as S
from bettercompute.wire.reservations import Condition as WireCondition
from bettercompute.wire.reservations import Reservation
from bettercompute.wire.series import Series
from reservations import commands, timing
from reservations.pages import advice, stations, waiting_page

POLL_WHILE_MOVING = "every 1s"
POLL_WHILE_HELD = "every 15s"
_START_IS_NEAR = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Names:
    """What ids are called, read once for all that a page shows."""

    pools: Mapping[str, str]
    nodes: Mapping[str, str]
    owners: Mapping[str, str]
    models: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """A reservation in a list."""

    href: str
    what: str
    pool: str
    owner: str
    chip: chips.Chip
    window: str
    duration: str
    nodes: str
    countdown: parts.Countdown
    meter: parts.Meter | None
    series: parts.Link | None  # where it stands for all that are to come of a series


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is true of it now, and what to do about it."""

    title: str
    text: str
    advice: str
    tone: str
    since: moments.Moment


@dataclass(frozen=True, slots=True)
class Binding:
    """Where the devices are on one node, and how to use them there."""

    node: str
    devices: str
    commands: tuple[parts.Command, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A reservation's own page."""

    id: str
    what: str
    chip: chips.Chip
    countdown: parts.Countdown
    meter: parts.Meter | None
    steps: tuple[stations.Step, ...]
    conditions: tuple[Condition, ...]
    bindings: tuple[Binding, ...]
    binding_hint: str
    facts: tuple[parts.Fact, ...]
    calls: tuple[parts.Command, ...]
    standing: waiting_page.Standing | None
    status_href: str
    confirm_href: str
    share_href: str
    extend_href: str
    renew_href: str
    release_href: str
    cancel_href: str
    poll: str

    @property
    def digest(self) -> str:
        """Changes when the page has something new to say; what only counts down does not count."""
        still = (self.chip, self.steps, self.conditions, self.bindings, self.facts, self.poll)
        verbs = (self.extend_href, self.renew_href, self.release_href, self.cancel_href)
        waits = None if self.standing is None else self.standing.news
        return hashlib.sha256(repr((still, verbs, waits)).encode()).hexdigest()[:16]


def row(
    shown: Reservation,
    names: Names,
    *,
    now: datetime,
    zone: tzinfo,
    with_owner: bool = False,
    series: parts.Link | None = None,
) -> Row:
    """One line of a list."""
    return Row(
        href=reverse("reservation", args=[shown.id]),
        what=what(shown, names),
        pool=names.pools.get(shown.pool_id, shown.pool_id),
        owner=names.owners.get(shown.owner_identity_id, "") if with_owner else "",
        chip=chips.of(shown),
        window=_window(shown, now, zone),
        duration=spans.text(timing.of(shown).length_ms),
        nodes=_nodes(shown, names),
        countdown=_countdown(shown, now, zone),
        meter=_meter(shown, now),
        series=series,
    )


def page(
    shown: Reservation,
    life: stations.Life,
    names: Names,
    *,
    now: datetime,
    zone: tzinfo,
    origin: str,
    shares: bool,
    sees_ask: bool,
    answer: str = "",
) -> Page:
    """All of a reservation's page; ``origin`` is the address the API is reached at.

    ``shares`` says whether who looks could share it; ``sees_ask``, whether they may read what its
    owner was asked; and ``answer`` is why the owner refused that, for who may read it.
    """
    ask_href = confirmation_href(shown) if sees_ask else ""
    state = shown.state
    pool = names.pools.get(shown.pool_id, shown.pool_id)
    ends = state in chips.LIVE and state is not S.AWAITING_CONFIRMATION
    cancels = ends and may_cancel(shown, now)
    extends = may_extend(shown, now)
    return Page(
        id=shown.id,
        what=f"{what(shown, names)} in {pool}",
        chip=chips.of(shown),
        countdown=_countdown(shown, now, zone),
        meter=_meter(shown, now),
        steps=tuple(stations.steps(shown, life, now=now, zone=zone)),
        conditions=tuple(_condition(c, now, zone) for c in shown.conditions),
        bindings=tuple(_bindings(shown, names)),
        binding_hint=_hint(shown),
        facts=tuple(_facts(shown, names, now, zone, ask_href=ask_href, answer=answer)),
        calls=tuple(commands.calls(shown, pool, origin)),
        standing=waiting_page.standing(shown.waiting, now=now, zone=zone),
        status_href=_href("reservation-status", shown),
        confirm_href=ask_href if state is S.AWAITING_CONFIRMATION else "",
        share_href=_href("reservation-users", shown) if shares and state in chips.LIVE else "",
        extend_href=_href("reservation-extend", shown) if extends else "",
        renew_href=_href("reservation-renew", shown) if extends and shown.lease_until else "",
        release_href=_href("reservation-release", shown) if ends and not cancels else "",
        cancel_href=_href("reservation-cancel", shown) if cancels else "",
        poll=_poll(shown, now),
    )


def _href(name: str, shown: Reservation) -> str:
    return reverse(name, args=[shown.id])


def may_cancel(shown: Reservation, now: datetime) -> bool:
    """Whether it has yet to begin; the use case decides again under its lock."""
    start = timing.of(shown).start
    ahead = start is not None and start > now
    return shown.state is S.PENDING or (shown.state is S.PLACED and ahead)


def may_extend(shown: Reservation, now: datetime) -> bool:
    """Whether it has an end that could move; the use case decides again under its lock."""
    end = timing.of(shown).end
    return shown.state in states.HOLDING and end is not None and end > now


def what(shown: Reservation, names: Names) -> str:
    """``8 × H100``: by the models it got, else by what it asked for."""
    devices = [device_id for a in shown.allocations for device_id in a.device_ids]
    got = [names.models[device_id] for device_id in devices if device_id in names.models]
    if got:
        return " + ".join(f"{got.count(model)} × {model}" for model in sorted(set(got)))
    return _asked(shown)


def _asked(shown: Reservation) -> str:
    """``2 × A100``, ``2 nodes of 8 GPUs``"""
    text = " + ".join(map(wanted.line, shown.request["devices"]))
    gang = (shown.request.get("gang") or {}).get("nodes", 1)
    return f"{gang} nodes of {text}" if gang > 1 else text


def _window(shown: Reservation, now: datetime, zone: tzinfo) -> str:
    times = timing.of(shown)
    if times.start and times.end:
        return moments.window(times.start, times.end, now=now, zone=zone)
    if times.asked:
        return f"from {moments.text(times.asked, now=now, zone=zone)}"
    return "as soon as it fits"


def _nodes(shown: Reservation, names: Names) -> str:
    listed = [names.nodes.get(a.node_id, a.node_id) for a in shown.allocations]
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")


def _countdown(shown: Reservation, now: datetime, zone: tzinfo) -> parts.Countdown:
    start, end = timing.of(shown).start, timing.of(shown).end
    if end and end <= now and shown.state is S.RELEASED:
        return parts.Countdown(f"ended {moments.text(end, now=now, zone=zone)}")
    if shown.state in chips.OVER:
        return parts.Countdown("over")
    if start and end and shown.state in states.HOLDING:
        if now < start:
            return parts.countdown(start, now=now, before="Starts in", after="Starting")
        return parts.countdown(end, now=now, before="Ends in", after="Ending")
    return parts.Countdown("Waiting")


def _meter(shown: Reservation, now: datetime) -> parts.Meter | None:
    start, end = timing.of(shown).start, timing.of(shown).end
    if shown.state not in (S.BINDING, S.ACTIVE) or not (start and end and start < end):
        return None
    return parts.elapsed(start, end, now=now)


def _poll(shown: Reservation, now: datetime) -> str:
    """Every second while something is about to change by itself, rarely while held, else never."""
    start = timing.of(shown).start
    match shown.state:
        case S.BINDING | S.DRAFT:
            return POLL_WHILE_MOVING
        case S.PLACED:
            near = start is not None and start - now <= _START_IS_NEAR
            return POLL_WHILE_MOVING if near else POLL_WHILE_HELD
        case S.ACTIVE | S.PENDING | S.AWAITING_CONFIRMATION:
            return POLL_WHILE_HELD
        case S.DENIED | S.RELEASED | S.FAILED | S.CANCELLED | S.EXPIRED:
            return ""
        case _:
            assert_never(shown.state)


def _condition(condition: WireCondition, now: datetime, zone: tzinfo) -> Condition:
    said = advice.on(condition)
    return Condition(
        title=said.title,
        text=condition.message,
        advice=said.text,
        tone=said.tone,
        since=moments.moment(clock.from_ms(condition.since), now=now, zone=zone),
    )


def attention(shown: Reservation, names: Names) -> list[parts.Notice]:
    """What the home page asks a person to look at."""
    pool = names.pools.get(shown.pool_id, shown.pool_id)
    notices = []
    for condition in shown.conditions:
        if condition.type == "Queued" or condition.status != "True":
            continue
        said = advice.on(condition)
        text = f"{what(shown, names)} in {pool}: {said.title[0].lower()}{said.title[1:]}"
        href = _href("reservation", shown)
        if condition.type == "ConfirmationRequired":
            href = confirmation_href(shown)
        if condition.reason == "AwaitingPerson":
            text = f"{shown.agent or 'An agent'} wants to reserve {what(shown, names)} in {pool}"
        notices.append(parts.Notice(text, said.text, said.tone, href, "Look"))
    return notices


_HINTS = {
    S.DRAFT: "It is being decided.",
    S.AWAITING_CONFIRMATION: "Commands appear here once it is approved, placed and bound.",
    S.PENDING: "Commands appear here once devices are found and bound.",
    S.PLACED: "At the start the nodes hand over the devices; how to use them appears here.",
    S.BINDING: "The nodes are handing over the devices. This takes a few seconds.",
}


def _hint(shown: Reservation) -> str:
    if chips.is_hopeless(shown):
        return "There is nothing to use unless the pool gets nodes that can serve it."
    return _HINTS.get(shown.state, "It is over; there is nothing left to use.")


def _bindings(shown: Reservation, names: Names) -> list[Binding]:
    return [
        Binding(
            node=names.nodes.get(allocation.node_id, allocation.node_id),
            devices=parts.count(len(allocation.device_ids), "device"),
            commands=commands.on_node(allocation.id, allocation.binding),
        )
        for allocation in shown.allocations
        if allocation.binding and allocation.state is AllocationState.BOUND
    ]


def _facts(
    shown: Reservation, names: Names, now: datetime, zone: tzinfo, *, ask_href: str, answer: str
) -> list[parts.Fact]:
    times, request = timing.of(shown), shown.request
    topologies = {line.get("topology") or "same-node" for line in request["devices"]}
    pool = names.pools.get(shown.pool_id, shown.pool_id)
    facts = [
        parts.Fact("Pool", pool, reverse("pool", args=[shown.pool_id])),
        parts.Fact("Asked for", _asked(shown)),
        parts.Fact("Window", _window(shown, now, zone)),
        parts.Fact("Length", spans.text(times.length_ms)),
        parts.Fact("Lease", _lease(shown, now, zone)),
        parts.Fact("Nodes", _nodes(shown, names)),
        parts.Fact("Topology", ", ".join(sorted(topologies))),
        parts.Fact("Binding", request.get("binding", "hold")),
        parts.Fact(
            "Spot",
            "yes: it gives way to what does not fit otherwise" if request.get("spot") else "",
        ),
        parts.Fact("Host share", _host_share(shown.host_share)),
        parts.Fact("GPU-hours", parts.number(shown.quote.gpu_hours)),
        parts.Fact("Series", *_series(shown)),
        parts.Fact("Reserved by", asker(shown, names), ask_href),
        parts.Fact("Shared with", _people(shown.users, names)),
        _ended(shown, names, answer, ask_href),
        parts.Fact("Key", shown.idempotency_key),
        parts.Fact("Version", str(shown.version)),
    ]
    if times.start and times.end:
        change = moments.clock_change(times.start, times.end, zone=zone)
        facts.append(parts.Fact("Clocks", change))
    return [fact for fact in facts if fact.value]


def _ended(shown: Reservation, names: Names, answer: str, ask_href: str) -> parts.Fact:
    """Why it is over; where its owner refused what an agent asked for: who, why, and where."""
    if not endings.by_owner(shown.reason):
        return parts.Fact("Ended because", endings.in_words(shown.reason))
    owner = names.owners.get(shown.owner_identity_id, "its owner")
    did = endings.in_words(shown.reason).removeprefix("its owner ")
    why = f": {answer}" if answer else ""
    return parts.Fact("Ended because", f"{owner} {did}{why}", ask_href)


def asker(shown: Reservation | Series, names: Names) -> str:
    """Its owner, or the agent that asked for it for them."""
    owner = names.owners.get(shown.owner_identity_id, "")
    return f"agent {shown.agent}, for {owner}" if shown.agent else owner


def confirmation_href(shown: Reservation | Series) -> str:
    """Where its owner was asked, if they were."""
    if shown.confirmation_id is None:
        return ""
    return reverse("confirmation", args=[shown.confirmation_id])


def _people(account_ids: Iterable[str], names: Names) -> str:
    return ", ".join(sorted(names.owners.get(each, each) for each in account_ids))


def _series(shown: Reservation) -> tuple[str, str]:
    """What it is one of, and where that is shown."""
    if shown.series_id is None:
        return "", ""
    return "one of a recurring reservation", reverse("series-detail", args=[shown.series_id])


def _lease(shown: Reservation, now: datetime, zone: tzinfo) -> str:
    if shown.lease_until is None or shown.state in chips.OVER:
        return ""
    lapses = clock.from_ms(shown.lease_until)
    return f"lapses {moments.text(lapses, now=now, zone=zone)} unless renewed"


def _host_share(share: Mapping[str, int]) -> str:
    words = []
    if share.get("vcpu"):
        words.append(f"{share['vcpu']:,} CPUs")
    if share.get("memoryGiB"):
        words.append(f"{share['memoryGiB']:,} GiB memory")
    return ", ".join(words) + (" per node" if words else "")
