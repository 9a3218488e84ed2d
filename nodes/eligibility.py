"""Whether a node and its devices may take new work: the placer's last look (C13).

What decides are columns of ``nodes`` and ``devices`` and nothing else. Every change of them is a
guarded update of that row, and the placer reads them ``FOR SHARE`` in the transaction that books,
so whoever commits second sees the first. ``nodes.standing`` has the changes.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bettercompute import sql
from bettercompute.states import NodeState

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

    @property
    def eligible(self) -> bool:
        """Whether it may be booked now."""
        return self.bookable_mode is not None and self.healthy and not self.quarantined


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
