"""Whether a node and its devices may take new work: the placer's last look (C13).

What decides are columns of ``nodes`` and ``devices`` and nothing else. Every change of them is a
guarded update of that row, and the placer reads them ``FOR SHARE`` in the transaction that books,
so whoever commits second sees the first. Each change publishes its event, lets those who hold
something on the node look again, and where capacity came back, those who wait for the pool.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from psycopg.types.range import Range

from bettercompute import errors, sql, states, transitions
from bettercompute.states import NodeState
from bettercompute.web import etags
from nodes import labelling, notices

ELIGIBILITY = sql.load(__package__, "eligibility")


@dataclass(frozen=True, slots=True)
class LockedNode:
    """A node as it is, and stays until the transaction ends."""

    id: str
    pool_id: str
    state: str
    cordoned: bool
    labels: Mapping[str, str]
    system_labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    platform_trusted: bool
    version: int

    @property
    def eligible(self) -> bool:
        """Whether it takes new work at all; taints and labels depend on the request."""
        return self.state == NodeState.READY and not self.cordoned


@dataclass(frozen=True, slots=True)
class LockedDevice:
    """A device as it is, and stays until the transaction ends."""

    id: str
    node_id: str
    gpu_id: str
    bookable_mode: str | None
    model: str
    profile: str
    memory_mib: int
    milli: int
    healthy: bool
    quarantined: bool
    maintenance: Sequence[Range[datetime]] = ()  #: announced for its node, and not over

    @property
    def eligible(self) -> bool:
        """Whether it may be booked now; whether its node is worked on depends on the window."""
        return self.bookable_mode is not None and self.healthy and not self.quarantined

    def is_worked_on(self, start: datetime, end: datetime) -> bool:
        """Whether maintenance of its node meets ``[start, end)``."""
        return any(
            each.lower is not None
            and each.upper is not None
            # Half-open: maintenance that begins at the end, or ends at the start, only touches.
            and each.lower < end
            and start < each.upper
            for each in self.maintenance
        )


@dataclass(frozen=True, slots=True)
class Locked:
    """What ``lock`` found; an id that no row has is not in here."""

    nodes: Mapping[str, LockedNode]
    devices: Mapping[str, LockedDevice]


def lock(*, node_ids: Iterable[str], device_ids: Iterable[str]) -> Locked:
    """Hold these rows unchanged until the transaction ends, and answer what they say now.

    Nodes before devices, each sorted by id (C19). The caller compares this with its plan.
    """
    nodes = ELIGIBILITY.all("lock_nodes", node_ids=list(node_ids))
    devices = ELIGIBILITY.all("lock_devices", device_ids=list(device_ids))
    return Locked(
        nodes={row[0]: _node(row) for row in nodes},
        devices={row[0]: LockedDevice(*row) for row in devices},
    )


def keep_devices(device_ids: Iterable[str]) -> None:
    """Keep these rows from changing until the transaction ends, whatever they say now.

    For whoever books more time on devices that it holds. A booking refers to its device, and that
    key is checked, and its row locked, only at COMMIT: behind all else, against the order (C19).
    """
    ELIGIBILITY.all("lock_devices", device_ids=list(device_ids))


def keep_placements_out(node_ids: Iterable[str]) -> None:
    """Let nobody else place on these nodes until the transaction ends.

    For whoever ends bookings of others and books in their place: a placement books its devices in
    the order of their ids, and could wait here for what it already makes wait.
    """
    ELIGIBILITY.all("keep_placements_out", node_ids=list(node_ids))


def cordon(node_id: str, *, if_match: frozenset[int] | None = None) -> int:
    """Take no new placements; what is there stays. Answers the node's version."""
    return _change(node_id, "node.cordoned", if_match=if_match, cordoned=True)


def uncordon(node_id: str, *, if_match: frozenset[int] | None = None) -> int:
    """Take new placements again. Answers the node's version."""
    return _change(node_id, "node.uncordoned", if_match=if_match, cordoned=False)


def taint(
    node_id: str, taints: Sequence[Mapping[str, str]], *, if_match: frozenset[int] | None = None
) -> int:
    """Replace the node's taints: only work that tolerates each of them is placed here.

    Raises:
        errors.InvalidInput: a taint is malformed.
    """
    wanted = labelling.check_taints(taints)
    return _change(node_id, "node.tainted", if_match=if_match, taints=wanted)


def set_labels(
    node_id: str, labels: Mapping[str, str], *, if_match: frozenset[int] | None = None
) -> int:
    """Replace the labels that operators set.

    Raises:
        errors.InvalidInput: a label is malformed, or under ``bc.dev/``, which is ours (N5).
    """
    wanted = labelling.check_labels(labels)
    return _change(node_id, "node.labelled", if_match=if_match, labels=wanted)


def set_system_labels(node_id: str, labels: Mapping[str, str]) -> int:
    """Replace the labels under ``bc.dev/``: what the node's agent can do, for instance (N5)."""
    assert all(name.startswith(labelling.SYSTEM_PREFIX) for name in labels), labels
    return _change(node_id, "node.labelled", system_labels=dict(labels))


def mark_unreachable(node_id: str) -> bool:
    """Not eligible until it is heard of again (C36); False where it was not ready."""
    return _move(node_id, before=NodeState.READY, after=NodeState.UNREACHABLE)


def mark_ready(node_id: str) -> bool:
    """Heard of again; False where it was not unreachable."""
    return _move(node_id, before=NodeState.UNREACHABLE, after=NodeState.READY)


def quarantine(device_id: str, *, reason: str) -> bool:
    """Book this device no more until its quarantine is ended; False where it was so already."""
    return device_id in quarantine_all([device_id], reason=reason)


def quarantine_all(device_ids: Iterable[str], *, reason: str) -> set[str]:
    """Quarantine several devices; answers those that were not."""
    return _set_quarantine(device_ids, quarantined=True, reason=reason)


def end_quarantine(device_id: str, *, reason: str = "") -> bool:
    """Let it be booked again; False where there was none."""
    return device_id in _set_quarantine([device_id], quarantined=False, reason=reason)


@transaction.atomic
def _change(
    node_id: str, event: str, *, if_match: frozenset[int] | None = None, **values: Any
) -> int:
    before = _lock_for_change(node_id)
    etags.require(before.version, if_match)
    after = replace(before, **values)
    if after == before:
        return before.version
    row = ELIGIBILITY.one(
        "change_node",
        node_id=node_id,
        version=before.version,
        cordoned=after.cordoned,
        labels=json.dumps(after.labels),
        system_labels=json.dumps(after.system_labels),
        taints=json.dumps(after.taints),
        platform_trusted=after.platform_trusted,
    )
    assert row is not None, "the row is locked at this version"
    _tell(after, event)
    return int(row[0])


@transaction.atomic
def _move(node_id: str, *, before: NodeState, after: NodeState) -> bool:
    node = _lock_for_change(node_id)
    if node.state != before:
        return False
    transitions.move(states.NODE, row_id=node_id, version=node.version, before=before, after=after)
    event = "node.unreachable" if after == NodeState.UNREACHABLE else "node.connected"
    _tell(replace(node, state=after), event)
    return True


def _tell(node: LockedNode, event: str) -> None:
    # Any change but one that takes the node out may have made room for somebody.
    notices.wake(changed=[node.id], gained=[node.id] if node.eligible else [])
    notices.publish_of_nodes(event, [node.id])


@transaction.atomic
def _set_quarantine(device_ids: Iterable[str], *, quarantined: bool, reason: str) -> set[str]:
    wanted = set(device_ids)
    found: dict[str, str] = dict(
        ELIGIBILITY.all("lock_devices_for_change", device_ids=list(wanted))
    )
    if missing := sorted(wanted - set(found)):
        raise errors.NotFound(f"There is no device {missing[0]}.")
    rows = ELIGIBILITY.all("set_quarantine", device_ids=list(wanted), quarantined=quarantined)
    changed = {device_id for (device_id,) in rows}
    nodes = sorted({found[device_id] for device_id in changed})
    notices.wake(changed=nodes, gained=[] if quarantined else nodes)
    event = "device.quarantined" if quarantined else "device.unquarantined"
    for node_id in nodes:
        here = [device_id for device_id in changed if found[device_id] == node_id]
        notices.publish_of_devices(event, node_id, dict.fromkeys(here, reason))
    return changed


def _lock_for_change(node_id: str) -> LockedNode:
    row = ELIGIBILITY.one("lock_node_for_change", node_id=node_id)
    if row is None:
        raise errors.NotFound(f"There is no node {node_id}.")
    return _node(row)


def _node(row: sql.Row) -> LockedNode:
    node_id, pool_id, state, cordoned, labels, system_labels, taints, trusted, version = row
    return LockedNode(
        id=node_id,
        pool_id=pool_id,
        state=state,
        cordoned=cordoned,
        labels=_parsed(labels),
        system_labels=_parsed(system_labels),
        taints=tuple(_parsed(taints)),
        platform_trusted=trusted,
        version=version,
    )


def _parsed(document: str | Any) -> Any:
    # Django's connection hands jsonb over as text.
    return json.loads(document) if isinstance(document, str) else document
