"""What a node's agent should make true, and its generation (N6).

Level-triggered: an answer is the whole desired state, so a repeat or a missed one is harmless. The
generation grows with every change and tells an agent's long poll that there is something new.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bettercompute import clock, sql

DESIRED = sql.load(__package__, "desired")


@dataclass(frozen=True, slots=True)
class DesiredAssignment:
    """Devices that the node should hold for an allocation (R26)."""

    allocation_id: str
    device_ids: tuple[str, ...]
    until_ms: int
    binding: str
    limits: Mapping[str, Any] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        """This, as the JSON object of the node protocol."""
        return {
            "allocationId": self.allocation_id,
            "deviceIds": list(self.device_ids),
            "until": self.until_ms,
            "binding": self.binding,
            "limits": dict(self.limits),
        }


@dataclass(frozen=True, slots=True)
class DesiredState:
    """Everything a node should hold, as of one generation."""

    generation: int
    assignments: tuple[DesiredAssignment, ...]


def generation(node_id: str) -> int:
    """The node's current generation; 0 before anything was ever wanted of it."""
    row = DESIRED.one("generation", node_id=node_id)
    return 0 if row is None else int(row[0])


def read(node_id: str) -> DesiredState:
    """The node's whole desired state."""
    rows = DESIRED.all("read", node_id=node_id)
    return DesiredState(
        generation=rows[0][0],
        assignments=tuple(_assignment(row) for row in rows if row[1] is not None),
    )


def change(node_ids: Iterable[str]) -> None:
    """Begin a change of these nodes' desired state: lock it, and let its generation grow."""
    changed = sorted(set(node_ids))
    if changed:
        DESIRED.run("change", node_ids=changed)


def lock(node_ids: Iterable[str]) -> None:
    """Keep these nodes' desired state from changing until the transaction ends."""
    DESIRED.all("lock", node_ids=list(node_ids))


def _assignment(row: sql.Row) -> DesiredAssignment:
    _, allocation_id, device_ids, until, binding, limits = row
    return DesiredAssignment(
        allocation_id=allocation_id,
        device_ids=tuple(device_ids),
        until_ms=clock.to_ms(until),
        binding=binding,
        limits=json.loads(limits),
    )
