"""From what a client sends to what the rest works with: validated, normalised, hashed (R2-R7).

Pure: no database, no clock. Two bodies that mean the same become the same document, and so have
the same hash: ``2h`` is ``7200000``, an absent binding is ``hold``, an absent topology is
``same-node``, an instant is the same in every notation.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from bettercompute import clock, durations, errors
from bettercompute.wire import reservations as wire
from pools import instants, recurrence, selectors
from pools.planner import request as planning
from pools.recurrence import Recurrence

DAY_MS = 86_400_000
YEARS_5_MS = 5 * 366 * DAY_MS  # any five calendar years
PAST_MAX_MS = 60_000

Amounts = Mapping[str, int]


@dataclass(frozen=True)
class NormalisedRequest:
    """A request that is valid in itself; what its pool allows is judged where the pool is known."""

    tenant_id: str
    pool_id: str
    lines: tuple[planning.Alternatives, ...]
    duration_ms: int
    start_ms: int | None
    binding: wire.Binding
    resources: Amounts
    gang: planning.Gang | None
    tolerations: tuple[planning.Toleration, ...]
    lease_seconds: int | None
    spot: bool
    priority: int
    labels: Mapping[str, str]
    users: tuple[str, ...]
    recurrence: Recurrence | None = None
    offer_id: str | None = None  #: the capacity offer that it is taken from

    @cached_property
    def document(self) -> dict[str, Any]:
        """The JSON that is stored and answered as ``request`` (R5): only what was given."""
        document: dict[str, Any] = {
            "poolId": self.pool_id,
            "devices": [_line_document(options) for options in self.lines],
            "duration": durations.normalise(self.duration_ms),
            "binding": str(self.binding),
        }
        document.update(dict(_optional_parts(self)))
        if self.recurrence is not None:
            document["recurrence"] = self.recurrence.document
        if self.offer_id is not None:
            document["offerId"] = self.offer_id
        return document

    @cached_property
    def hash(self) -> str:
        """SHA-256 over the document as canonical JSON (R7)."""
        text = json.dumps(self.document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def starting(self, start_ms: int) -> "NormalisedRequest":
        """The same for another time."""
        return replace(self, start_ms=start_ms)

    @property
    def node_count(self) -> int:
        """How many nodes give all lines: a gang's size, else one."""
        return 1 if self.gang is None else self.gang.nodes

    @property
    def gpus(self) -> int:
        """Devices asked for, at the most."""
        per_node = sum(max(line.maximum for line in options) for options in self.lines)
        return self.node_count * per_node

    def gpu_milli(self, replicas: int) -> int:
        """What it costs of the quota ``gpuMilli``, at the most."""
        per_node = sum(
            max(line.maximum * planning.milli(line.device_class, replicas) for line in options)
            for options in self.lines
        )
        return self.node_count * per_node

    def demand(self, booked: Amounts, *, replicas: int) -> planning.Demand:
        """What to ask the planner, with the host resources that each node shall book."""
        kubernetes = self.binding is wire.Binding.KUBERNETES
        return planning.Demand(
            lines=self.lines,
            gang=self.gang,
            tolerations=self.tolerations,
            resources={name: amount for name, amount in booked.items() if amount > 0},
            resources_asked=bool(self.resources),
            labels=(planning.KUBERNETES_LABEL,) if kubernetes else (),
            replicas=replicas,
        )


def normalise(request: wire.ReservationRequest, *, now_ms: int) -> NormalisedRequest:
    """A wire request as a normalised one.

    Raises:
        errors.InvalidInput: with the path of every field found wrong.
        errors.Unsupported: a field asks for what is not available.
    """
    wrong: list[errors.FieldError] = list(_nul_bytes(request))
    duration_ms = duration(request.duration, "duration", wrong)
    start_ms = start(request.start, "start", wrong, now_ms=now_ms)
    lines = tuple(_lines(request.devices, wrong))
    repeats, start_ms = _recurrence(request, start_ms, duration_ms, wrong)
    _check_bindings(request, wrong)
    _check_tolerations(request.tolerations or [], wrong)
    if wrong:
        raise errors.InvalidInput(errors=wrong)
    _refuse_unavailable(request)
    return NormalisedRequest(
        tenant_id=request.tenant_id,
        pool_id=request.pool_id,
        lines=lines,
        duration_ms=duration_ms,
        start_ms=start_ms,
        binding=request.binding,
        resources=_resources(request.resources),
        gang=None
        if request.gang is None
        else planning.Gang(request.gang.nodes, request.gang.topology),
        tolerations=tuple(
            planning.Toleration(item.key, item.value) for item in request.tolerations or []
        ),
        lease_seconds=request.lease_seconds,
        spot=request.spot,
        priority=request.priority,
        labels=dict(request.labels or {}),
        users=tuple(sorted(set(request.users or ()))),
        recurrence=repeats,
        offer_id=request.offer_id,
    )


def restore(document: Mapping[str, Any], *, tenant_id: str) -> NormalisedRequest:
    """The normalised request of a stored document; its start may have passed meanwhile (R17)."""
    request = wire.ReservationRequest.model_validate_json(
        json.dumps({**document, "tenantId": tenant_id})
    )
    return normalise(request, now_ms=request.start if isinstance(request.start, int) else 0)


def _nul_bytes(request: wire.ReservationRequest) -> Iterator[errors.FieldError]:
    """PostgreSQL's text cannot hold NUL, and nobody means it."""
    if "\\u0000" not in request.model_dump_json():
        return
    for name, value in request.model_dump(mode="json", by_alias=True).items():
        if "\\u0000" in json.dumps(value):
            yield errors.FieldError(name, "must not contain NUL")


def duration(value: int | str, path: str, wrong: list[errors.FieldError]) -> int:
    """Milliseconds; what is wrong with it is added to the list, at this path."""
    try:
        milliseconds = durations.parse(value)
    except durations.InvalidDuration as error:
        wrong.append(errors.FieldError(path, str(error)))
        return 0
    if milliseconds > YEARS_5_MS:
        wrong.append(errors.FieldError(path, "must be at most 5 years"))
    return milliseconds


def start(
    value: int | str | None, path: str, wrong: list[errors.FieldError], *, now_ms: int
) -> int | None:
    """Epoch milliseconds, None for as soon as it is placed; what is wrong as for ``duration``."""
    if value is None:
        return None
    try:
        start_ms = instants.parse(value)
    except instants.InvalidInstant as error:
        wrong.append(errors.FieldError(path, str(error)))
        return None
    if start_ms < now_ms - PAST_MAX_MS:
        wrong.append(errors.FieldError(path, "is more than a minute in the past"))
    if start_ms > now_ms + YEARS_5_MS:
        wrong.append(errors.FieldError(path, "must be at most 5 years ahead"))
    return start_ms


def _recurrence(
    request: wire.ReservationRequest,
    start_ms: int | None,
    duration_ms: int,
    wrong: list[errors.FieldError],
) -> tuple[Recurrence | None, int | None]:
    """How it repeats, and the start of its first occurrence: the first that the rule has."""
    if request.recurrence is None:
        return None, start_ms
    if request.start is None:
        wrong.append(errors.FieldError("start", "is required with recurrence: the first of them"))
    if request.lease_seconds is not None:
        message = "cannot be used with recurrence: nobody renews what is booked ahead"
        wrong.append(errors.FieldError("leaseSeconds", message))
    if request.offer_id is not None:
        message = "cannot be used with recurrence: an offer is of one window"
        wrong.append(errors.FieldError("offerId", message))
    if start_ms is None or wrong:
        return None, start_ms
    found = recurrence.normalise(
        request.recurrence, start=clock.from_ms(start_ms), duration_ms=duration_ms, wrong=wrong
    )
    if found is None or wrong:
        return None, start_ms
    return found, clock.to_ms(next(found.starts()))


def _lines(
    devices: list[wire.AnyOfLine | wire.DeviceLine], wrong: list[errors.FieldError]
) -> Iterator[planning.Alternatives]:
    for index, entry in enumerate(devices):
        path = f"devices[{index}]"
        if isinstance(entry, wire.DeviceLine):
            yield (_line(entry, path, wrong),)
        else:
            yield tuple(
                _line(option, f"{path}.anyOf[{number}]", wrong)
                for number, option in enumerate(entry.any_of)
            )


def _line(line: wire.DeviceLine, path: str, wrong: list[errors.FieldError]) -> planning.Line:
    minimum, maximum = _count(line.count, f"{path}.count", wrong)
    if line.device_class is wire.DeviceClass.MIG and line.profile is None:
        wrong.append(errors.FieldError(f"{path}.profile", "is required with class gpu.mig"))
    if line.device_class is not wire.DeviceClass.MIG and line.profile is not None:
        wrong.append(errors.FieldError(f"{path}.profile", "is only for class gpu.mig"))
    return planning.Line(
        device_class=line.device_class,
        minimum=minimum,
        maximum=maximum,
        profile=line.profile or "",
        topology=line.topology or wire.Topology.SAME_NODE,
        selector=selectors.parse(line.selector, f"{path}.selector", wrong),
    )


def _count(
    count: int | wire.CountRange, path: str, wrong: list[errors.FieldError]
) -> tuple[int, int]:
    if isinstance(count, int):
        return count, count
    if count.min > count.max:
        wrong.append(errors.FieldError(f"{path}.min", "must be at most max"))
    return count.min, count.max


def _check_bindings(request: wire.ReservationRequest, wrong: list[errors.FieldError]) -> None:
    is_node = request.binding is wire.Binding.NODE
    if is_node and request.node is None:
        wrong.append(errors.FieldError("node.profileId", "is required with binding node"))
    if is_node and request.spot:
        wrong.append(errors.FieldError("spot", "a node binding cannot be spot"))
    if request.node is not None and not is_node:
        wrong.append(errors.FieldError("node", "is only for binding node"))


def _check_tolerations(tolerations: list[wire.Toleration], wrong: list[errors.FieldError]) -> None:
    for index, toleration in enumerate(tolerations):
        path = f"tolerations[{index}].value"
        if toleration.op == "=" and toleration.value is None:
            wrong.append(errors.FieldError(path, "is required with op ="))
        if toleration.op == "exists" and toleration.value is not None:
            wrong.append(errors.FieldError(path, "is not allowed with op exists"))


def _refuse_unavailable(request: wire.ReservationRequest) -> None:
    if request.binding in {wire.Binding.INSTANCE, wire.Binding.NODE}:
        raise errors.Unsupported(
            f"binding {request.binding} is not supported; use hold.", field="binding"
        )


def _resources(resources: wire.Resources | None) -> dict[str, int]:
    """Nothing and zero are the same: both are raised to the pool's per-GPU share (R30)."""
    if resources is None:
        return {}
    given = resources.model_dump(by_alias=True)
    return {name: amount for name, amount in given.items() if amount}


def _line_document(options: planning.Alternatives) -> dict[str, Any]:
    if len(options) > 1:
        return {"anyOf": [_line_document((line,)) for line in options]}
    (line,) = options
    document: dict[str, Any] = {"class": str(line.device_class), "count": line.maximum}
    if line.minimum != line.maximum:
        document["count"] = {"min": line.minimum, "max": line.maximum}
    if line.profile:
        document["profile"] = line.profile
    if line.topology is not wire.Topology.SAME_NODE:
        document["topology"] = str(line.topology)
    if line.selector:
        document["selector"] = [selectors.document(term) for term in line.selector]
    return document


def _optional_parts(request: NormalisedRequest) -> Iterator[tuple[str, Any]]:
    if request.start_ms is not None:
        yield "start", request.start_ms
    if request.resources:
        yield "resources", dict(request.resources)
    if request.gang is not None:
        yield "gang", {"nodes": request.gang.nodes, "topology": str(request.gang.topology)}
    if request.lease_seconds is not None:
        yield "leaseSeconds", request.lease_seconds
    if request.spot:
        yield "spot", True
    if request.tolerations:
        yield "tolerations", [_toleration_document(item) for item in request.tolerations]
    if request.labels:
        yield "labels", dict(request.labels)
    if request.priority:
        yield "priority", request.priority
    if request.users:
        yield "users", list(request.users)


def _toleration_document(toleration: planning.Toleration) -> dict[str, str]:
    if toleration.value is None:
        return {"key": toleration.key, "op": "exists"}
    return {"key": toleration.key, "op": "=", "value": toleration.value}
