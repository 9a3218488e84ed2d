"""One reservation as a register of versions.

Everybody may write it, the control plane included, so writes are not all seen; but each answer
carries the version it shows. Such a register is linearizable exactly if instants can be chosen, one
inside each operation, in whose order versions never fall. They can be if no two operations that do
not overlap show versions in the wrong order: then every operation may be placed at the latest
invocation among those with its version or an older one.

Beside the order, the content: one version is one content, each step is a legal one, and whoever is
placed moves only by way of ``pending``.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from tests.support.history import model
from tests.support.history.anomalies import Anomaly, Kind
from tests.support.history.evidence import FINAL, Evidence, Observation
from tests.support.history.recording import Operation


def check(evidence: Evidence) -> Iterator[Anomaly]:
    """Anomalies of every reservation's versions."""
    for key, seen in evidence.observations.items():
        yield from _order(key, seen)
        yield from _contents(key, seen)
        by_version = sorted(seen, key=lambda each: (each.version, each.invoked))
        for before, after in pairwise(by_version):
            yield from _step(key, before, after)
    yield from _allocations(evidence)
    yield from _presence(evidence)


def _order(key: str, seen: list[Observation]) -> Iterator[Anomaly]:
    """A read that began after another had ended never shows an older version."""
    ended = sorted(seen, key=lambda each: each.completed)
    newest, at = None, 0
    for each in seen:  # by invocation
        while at < len(ended) and ended[at].completed < each.invoked:
            if newest is None or ended[at].version > newest.version:
                newest = ended[at]
            at += 1
        if newest is not None and each.version < newest.version:
            message = f"version {each.version} after {newest.version} had been answered"
            yield Anomaly(Kind.STALE_READ, key, message, (newest.operation, each.operation))


def _contents(key: str, seen: list[Observation]) -> Iterator[Anomaly]:
    first: dict[int, Observation] = {}
    for each in seen:
        known = first.setdefault(each.version, each)
        differing = _differing(content(known.shown), content(each.shown))
        if differing:
            message = f"version {each.version} differs in {', '.join(differing)}"
            operations = (known.operation, each.operation)
            yield Anomaly(Kind.ONE_VERSION_TWO_CONTENTS, key, message, operations)


def content(shown: Mapping[str, Any]) -> dict[str, str]:
    """What belongs to a version. How far each node is does not: allocations have their own.

    Nor does where it stands in line, which others move.
    """
    moving = {"allocations", "binding", "waiting"}
    kept = {name: value for name, value in shown.items() if name not in moving}
    kept["allocations"] = sorted(
        (part["id"], part["nodeId"], sorted(part["deviceIds"])) for part in shown["allocations"]
    )
    return {name: json.dumps(value, sort_keys=True) for name, value in kept.items()}


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def _step(key: str, before: Observation, after: Observation) -> Iterator[Anomaly]:
    """What may have happened between two versions, the other versions between them unseen."""
    operations = (before.operation, after.operation)
    changed = [name for name in model.IMMUTABLE if before.shown[name] != after.shown[name]]
    if changed:
        yield Anomaly(Kind.IDENTITY_CHANGED, key, f"changed {', '.join(changed)}", operations)
    versions = after.version - before.version
    moves = model.distance(before.state, after.state)
    if versions and (moves is None or moves > versions):
        message = f"{before.state} became {after.state} within {versions} versions"
        yield Anomaly(Kind.ILLEGAL_TRANSITION, key, message, operations)
    if versions and before.state in model.HOLDING:
        yield from _kept(key, before, after, versions)


def _kept(key: str, before: Observation, after: Observation, versions: int) -> Iterator[Anomaly]:
    """Devices and window of whoever is placed stay, but for a way through ``pending``."""
    operations = (before.operation, after.operation)
    replaceable = before.state != "active" and versions >= 2
    if replaceable:
        return
    if after.state in model.HOLDING:
        if before.booked != after.booked:
            message = f"{before.state} on {_where(before)}, then on {_where(after)}"
            yield Anomaly(Kind.MOVED, key, message, operations)
        if after.start != before.start or _less(after.end, before.end):
            yield Anomaly(Kind.WINDOW_CHANGED, key, _windows(before, after), operations)
    elif after.state in {"released", "cancelled"} and (
        after.start != before.start or (versions == 1 and _less(before.end, after.end))
    ):
        yield Anomaly(Kind.WINDOW_CHANGED, key, _windows(before, after), operations)


def _allocations(evidence: Evidence) -> Iterator[Anomaly]:
    """An allocation is one reservation's, on one node, with the same devices for ever."""
    known: dict[str, tuple[tuple[str, str, tuple[str, ...]], int]] = {}
    for seen in evidence.observations.values():
        for each in seen:
            for part in each.shown["allocations"]:
                what = (each.id, part["nodeId"], tuple(sorted(part["deviceIds"])))
                first, operation = known.setdefault(part["id"], (what, each.operation))
                if first != what:
                    message = f"was {first}, is {what}"
                    operations = (operation, each.operation)
                    yield Anomaly(Kind.ALLOCATION_CHANGED, part["id"], message, operations)


def _presence(evidence: Evidence) -> Iterator[Anomaly]:
    """What was acknowledged is found: by whoever asks later, and in the end."""
    first = {
        key: min(seen, key=lambda each: each.completed)
        for key, seen in evidence.observations.items()
    }
    for operation in evidence.operations:
        shown = first.get(operation.call.target or "")
        if shown is not None and _vanished(operation, shown):
            message = f"{operation.call.op} answered 404 after it had been answered"
            operations = (shown.operation, operation.id)
            yield Anomaly(Kind.VANISHED, shown.id, message, operations)
    final = evidence.final
    if final is None:
        return
    for key, seen in first.items():
        if seen.shown["tenantId"] in final.tenants and key not in final.reservations:
            yield Anomaly(Kind.LOST, key, f"was {seen.state}, is not there", (seen.operation,))


def _vanished(operation: Operation, shown: Observation) -> bool:
    return (
        operation.status == 404
        and shown.operation != FINAL
        and operation.call.tenant == shown.shown["tenantId"]
        and shown.completed < operation.invoked
    )


def _where(seen: Observation) -> str:
    return "; ".join(f"{node}: {', '.join(devices)}" for _, node, devices in seen.booked) or "none"


def _windows(before: Observation, after: Observation) -> str:
    return f"[{before.start}, {before.end}) became [{after.start}, {after.end})"


def _less(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other
