"""The reservation form: what a person typed, as a request; what was wrong, beside its field. Pure.

The text stays as typed, so a page shown again has it. Words for durations and starts are the
console's own (``3 days``, ``Mon 09:00``); all other limits are the wire's and the use case's, whose
errors are brought back to the field they are about.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from bettercompute import clock, errors
from bettercompute.pages import moments, parts, repeats, spans, starts
from bettercompute.pages.parts import Field, Option
from bettercompute.wire import reservations as wire
from bettercompute.wire.reservations import Binding, DeviceClass, GangTopology, Topology
from pools.supply import Supply

TEXT_MAX = 200

CLASSES = ((DeviceClass.GPU, "Whole GPUs"), (DeviceClass.MIG, "MIG slices"))
TOPOLOGIES = (
    (Topology.SAME_NODE, "one node"),
    (Topology.SAME_NUMA, "one NUMA domain"),
    (Topology.NVLINK_ALL, "NVLink, every pair"),
    (Topology.ANY, "any devices of a node"),
)
GANG_TOPOLOGIES = (
    (GangTopology.ANY, "anywhere"),
    (GangTopology.SAME_RACK, "in one rack"),
    (GangTopology.SAME_SWITCH, "at one switch"),
)
BINDINGS = ((Binding.HOLD, "devices on the node"), (Binding.KUBERNETES, "Kubernetes devices"))

# The wire's paths end in one of these; the form's field beside it.
_FIELDS = {
    "poolId": "pool",
    "class": "device_class",
    "count": "count",
    "topology": "topology",
    "profile": "profile",
    "duration": "duration",
    "start": "start",
    "binding": "binding",
    "vcpu": "vcpu",
    "memoryGiB": "memory",
    "spot": "spot",
    "nodes": "nodes",
    "leaseSeconds": "lease",
    "rule": "repeat",
    "timeZone": "repeat",
}
_BEHIND_MORE = {"binding", "nodes", "gang_topology", "vcpu", "memory", "lease"}


@dataclass(frozen=True, slots=True)
class Entry:
    """The form as typed."""

    key: str = ""
    pool: str = ""
    device_class: str = DeviceClass.GPU
    count: str = "1"
    topology: str = Topology.SAME_NODE
    profile: str = ""
    duration: str = "2h"
    start: str = ""
    binding: str = Binding.HOLD
    vcpu: str = ""
    memory: str = ""
    spot: str = ""
    nodes: str = ""
    gang_topology: str = GangTopology.ANY
    lease: str = ""
    repeat: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """The window an entry means."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Parsed:
    """What an entry means, or what is wrong with it by field."""

    request: wire.ReservationRequest | None
    window: Window | None
    notes: tuple[str, ...] = ()
    wrong: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PoolOption:
    """A pool to choose; ``only`` is ``gpu`` or ``mig`` where it has no other class of device."""

    value: str
    label: str
    chosen: bool
    only: str


@dataclass(frozen=True, slots=True)
class View:
    """The form as a template prints it."""

    key: str
    pool: Field
    device_class: Field
    count: Field
    topology: Field
    profile: Field
    duration: Field
    start: Field
    binding: Field
    vcpu: Field
    memory: Field
    spot: Field
    nodes: Field
    gang_topology: Field
    lease: Field
    repeat: Field
    pools: tuple[PoolOption, ...]
    classes: tuple[Option, ...]
    topologies: tuple[Option, ...]
    gang_topologies: tuple[Option, ...]
    profiles: tuple[Option, ...]
    bindings: tuple[Option, ...]
    more_open: bool


def read(data: Mapping[str, str], *, supplies: Sequence[Supply]) -> Entry:
    """The entry that was sent; what is missing has its default."""
    names = [item.name for item in fields(Entry)]
    given = {name: _clean(data[name]) for name in names if name in data}
    entry = Entry(**given)
    if not entry.pool and supplies:
        entry = replace(entry, pool=supplies[0].id)
    return _fitting_class(entry, supplies)


def _clean(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", " ", text[:TEXT_MAX]).strip()


def _fitting_class(entry: Entry, supplies: Sequence[Supply]) -> Entry:
    """Of a pool with one class of device nobody chooses: the form shows no other."""
    pool = next((supply for supply in supplies if supply.id == entry.pool), None)
    only = None if pool is None else _only_class(pool)
    if pool is None or only is None:
        return entry
    profiles = [kind.profile for kind in pool.kinds]
    is_fitting = only is DeviceClass.GPU or entry.profile in profiles
    return replace(entry, device_class=only, profile=entry.profile if is_fitting else profiles[0])


def _only_class(supply: Supply) -> DeviceClass | None:
    """The one class that all its devices have; None where there are several, or no devices."""
    classes = {kind.device_class for kind in supply.kinds}
    return classes.pop() if len(classes) == 1 else None


def parse(entry: Entry, *, tenant_id: str, now: datetime, zone: tzinfo) -> Parsed:
    """The request that an entry means."""
    wrong: dict[str, str] = {}
    duration_ms = _duration(entry.duration, wrong)
    start = _start(entry.start, now, zone, wrong)
    body = _body(entry, tenant_id, duration_ms, start.at, wrong)
    if entry.repeat:
        body["recurrence"] = _recurrence(entry, zone, wrong)
    window = _window(start.at or now, duration_ms)
    notes = [start.note]
    if window:
        notes.append(moments.clock_change(window.start, window.end, zone=zone))
    request = None
    try:
        request = wire.ReservationRequest.model_validate(body)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            path = ".".join(str(part) for part in problem["loc"])
            wrong.setdefault(field_of(path), _plain(problem["msg"]))
    return Parsed(
        request=None if wrong else request,
        window=window,
        notes=tuple(note for note in notes if note),
        wrong=wrong,
    )


def _duration(text: str, wrong: dict[str, str]) -> int:
    try:
        return spans.parse(text)
    except spans.NotUnderstood as error:
        wrong["duration"] = str(error)
        return 0


def _start(text: str, now: datetime, zone: tzinfo, wrong: dict[str, str]) -> starts.Start:
    try:
        return starts.parse(text, now=now, zone=zone)
    except starts.NotUnderstood as error:
        wrong["start"] = str(error)
        return starts.Start(None)


def _recurrence(entry: Entry, zone: tzinfo, wrong: dict[str, str]) -> dict[str, str] | None:
    if not entry.start:
        wrong.setdefault("start", "Say when the first of them begins, such as Mon 15:00.")
    try:
        rule = repeats.parse(entry.repeat)
    except repeats.NotUnderstood as error:
        wrong["repeat"] = str(error)
        return None
    return {"rule": rule, "timeZone": zone.key if isinstance(zone, ZoneInfo) else "UTC"}


def _window(start: datetime, duration_ms: int) -> Window | None:
    if duration_ms <= 0:
        return None
    try:
        return Window(start, start + timedelta(milliseconds=duration_ms))
    except OverflowError:  # beyond year 9999; the use case says what the limit is
        return None


def _body(
    entry: Entry,
    tenant_id: str,
    duration_ms: int,
    start: datetime | None,
    wrong: dict[str, str],
) -> dict[str, Any]:
    line: dict[str, Any] = {
        "class": _member(DeviceClass, entry.device_class, "device_class", wrong),
        "count": _whole(entry.count, "count", wrong),
        "topology": _member(Topology, entry.topology, "topology", wrong),
    }
    if line["class"] is DeviceClass.MIG:
        line["profile"] = entry.profile or None
    body: dict[str, Any] = {
        "tenantId": tenant_id,
        "poolId": entry.pool,
        "devices": [line],
        "duration": duration_ms,
        "binding": _member(Binding, entry.binding, "binding", wrong),
        "start": clock.to_ms(start) if start else None,
        "idempotencyKey": entry.key or None,
        "spot": bool(entry.spot),
    }
    amounts = {
        "vcpu": _whole(entry.vcpu, "vcpu", wrong) if entry.vcpu else None,
        "memoryGiB": _whole(entry.memory, "memory", wrong) if entry.memory else None,
    }
    if any(amount is not None for amount in amounts.values()):
        body["resources"] = amounts
    if entry.nodes:
        topology = _member(GangTopology, entry.gang_topology, "gang_topology", wrong)
        body["gang"] = {"nodes": _whole(entry.nodes, "nodes", wrong), "topology": topology}
    if entry.lease:
        body["leaseSeconds"] = _lease_seconds(entry.lease, wrong)
    return body


def _lease_seconds(text: str, wrong: dict[str, str]) -> int:
    try:
        return max(1, spans.parse(text) // 1_000)
    except spans.NotUnderstood as error:
        wrong["lease"] = str(error)
        return 1


def _whole(text: str, name: str, wrong: dict[str, str]) -> int:
    compact = text.replace(",", "").replace("_", "")
    if not re.fullmatch(r"-?[0-9]{1,9}", compact):
        wrong[name] = "A whole number, please."
        return 1
    return int(compact)


def _member(kind: Any, text: str, name: str, wrong: dict[str, str]) -> Any:
    try:
        return kind(text)
    except ValueError:
        wrong[name] = "Choose one of these."
        return next(iter(kind))


def field_of(path: str) -> str:
    """The form's field for a path of the wire such as ``devices[0].count.min``; else empty."""
    names = re.split(r"[.\[\]]+", path)
    return next((_FIELDS[name] for name in reversed(names) if name in _FIELDS), "")


def wrong_of(error: errors.InvalidInput) -> dict[str, str]:
    """A use case's complaints by field; what belongs to no field is under the empty name."""
    found: dict[str, str] = {}
    for problem in error.details.get("errors", []):
        found.setdefault(field_of(problem["path"]), _plain(problem["message"]))
    return found


def _plain(message: str) -> str:
    """``Input should be less than or equal to 4096`` as ``At most 4096.``"""
    text = message.removeprefix("Value error, ").removeprefix("Input should be ")
    text = text.replace("greater than or equal to", "at least")
    text = text.replace("less than or equal to", "at most")
    return parts.sentence(text)


def view(entry: Entry, wrong: Mapping[str, str], *, supplies: Sequence[Supply]) -> View:
    """The form with its texts, choices and complaints."""
    profiles = sorted({k.profile for s in supplies for k in s.kinds if k.profile})
    inputs = {
        item.name: Field(item.name, getattr(entry, item.name), wrong.get(item.name, ""))
        for item in fields(Entry)
        if item.name != "key"
    }
    return View(
        key=entry.key,
        **inputs,
        pools=tuple(_pool_option(supply, entry) for supply in supplies),
        classes=parts.options(CLASSES, entry.device_class),
        topologies=parts.options(TOPOLOGIES, entry.topology),
        gang_topologies=parts.options(GANG_TOPOLOGIES, entry.gang_topology),
        profiles=parts.options([("", "none"), *((p, p) for p in profiles)], entry.profile),
        bindings=parts.options(_bindings(entry, supplies), entry.binding),
        more_open=_is_more_given(entry) or bool(wrong.keys() & _BEHIND_MORE),
    )


def _is_more_given(entry: Entry) -> bool:
    return any((entry.nodes, entry.vcpu, entry.memory, entry.lease))


def _pool_option(supply: Supply, entry: Entry) -> PoolOption:
    only = _only_class(supply)
    return PoolOption(
        value=supply.id,
        label=_pool_label(supply),
        chosen=supply.id == entry.pool,
        only="" if only is None else only.name.lower(),
    )


def _pool_label(supply: Supply) -> str:
    kinds = " + ".join(f"{kind.count} × {kind.label}" for kind in supply.kinds)
    return f"{supply.access.name} · {kinds or 'no devices'}"


def _bindings(entry: Entry, supplies: Sequence[Supply]) -> Sequence[tuple[str, str]]:
    """Kubernetes only for a pool of one's own that has it (R27)."""
    pool = next((supply for supply in supplies if supply.id == entry.pool), None)
    kubernetes = pool is not None and pool.access.owned and pool.access.policy.kubernetes
    return BINDINGS if kubernetes or entry.binding == Binding.KUBERNETES else BINDINGS[:1]
