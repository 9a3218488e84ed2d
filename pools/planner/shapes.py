"""Nodes that the planner cannot tell apart are one *shape*: judged once, counted as many."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pools.planner.request import GANG_LABELS, LIMITS_LABEL, Demand
from pools.planner.snapshot import Cell, Node


@dataclass(frozen=True, slots=True)
class Shape:
    """Nodes alike in all that matters to one demand."""

    nodes: tuple[Node, ...]

    @property
    def sample(self) -> Node:
        """Any of them, to judge them all by."""
        return self.nodes[0]

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [node.name for node in self.nodes]


def group(nodes: Iterable[Node], demand: Demand) -> list[Shape]:
    """The nodes by shape."""
    labels = labels_that_matter(demand)
    found: dict[Any, list[Node]] = {}
    for node in nodes:
        found.setdefault(_key(node, labels), []).append(node)
    return [Shape(tuple(members)) for members in found.values()]


class Grouping:
    """The same for who groups nodes for one demand after the other: shapes are remembered."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...], dict[Any, int]] = {}
        # By identity; kept here, a node's identity stays its own.
        self._known: dict[tuple[str, ...], dict[int, tuple[Node, int]]] = {}

    def group(self, nodes: Iterable[Node], demand: Demand) -> list[Shape]:
        """The nodes by shape."""
        labels = tuple(labels_that_matter(demand))
        numbers = self._numbers.setdefault(labels, {})
        known = self._known.setdefault(labels, {})
        found: dict[int, list[Node]] = {}
        for node in nodes:
            if id(node) not in known:
                known[id(node)] = node, numbers.setdefault(_key(node, labels), len(numbers))
            found.setdefault(known[id(node)][1], []).append(node)
        return [Shape(tuple(members)) for members in found.values()]


def _key(node: Node, labels: Sequence[str]) -> Any:
    return (
        node.state,
        node.cordoned,
        node.connected,
        node.has_reported,
        node.taints,
        node.worked_on_until,
        tuple(node.label(key) for key in labels),
        tuple(sorted(node.resources.items())),
        tuple(sorted(node.capacity.items())),
        tuple(_cell_key(cell) for cell in node.cells),
    )


def _cell_key(cell: Cell) -> Hashable:
    return cell.kind, len(cell.free), len(cell.busy_until), cell.unhealthy


def labels_that_matter(demand: Demand) -> list[str]:
    """The labels that any filter of the demand looks at."""
    keys = {
        term.key
        for options in demand.lines
        for line in options
        for term in line.selector
        if not term.of_device
    }
    if demand.gang is not None and demand.gang.topology in GANG_LABELS:
        keys.add(GANG_LABELS[demand.gang.topology])
    return sorted(keys | set(demand.labels) | {LIMITS_LABEL})
