"""What is true of a node now, for people and for ranking; it never decides eligibility (C36)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from bettercompute import sql

CONDITIONS = sql.load(__package__, "conditions")


class Condition(StrEnum):
    """The types of conditions."""

    CONNECTED = "Connected"
    DISCONNECTED = "Disconnected"
    UNREACHABLE = "Unreachable"
    OVERCOMMITTED = "Overcommitted"
    INVENTORY_REFUSED = "InventoryRefused"


@dataclass(frozen=True, slots=True)
class Why:
    """A condition's reason, for programs, and message, for people."""

    reason: str = ""
    message: str = ""


def put(condition: Condition, nodes: Mapping[str, Why]) -> list[str]:
    """Let the condition stand on these nodes; answers those where it did not stand before."""
    if not nodes:
        return []
    rows = CONDITIONS.all(
        "raise_many",
        type=condition,
        node_ids=list(nodes),
        reasons=[why.reason for why in nodes.values()],
        messages=[why.message for why in nodes.values()],
    )
    return [node_id for node_id, is_new in rows if is_new]


def clear(conditions: Iterable[Condition], node_ids: Iterable[str]) -> list[str]:
    """Let these conditions stand no more; answers the nodes where one did."""
    rows = CONDITIONS.all(
        "clear_many", types=[str(each) for each in conditions], node_ids=list(node_ids)
    )
    return [node_id for (node_id,) in rows]
