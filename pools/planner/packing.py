"""Which of the nodes that fit to take, and which of their atoms (R15).

Best fit that minds fragmentation: whole nodes and whole NVLink groups are kept for those who need
them, the least capable cards that do are taken, and what is left over is kept small. Equal choices
are made at random, so that rivals do not collide three times (C18).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pools.planner import filters, topology
from pools.planner.request import Demand, Line
from pools.planner.snapshot import Node


@dataclass(frozen=True, slots=True)
class Part:
    """What a plan takes of one node: an allocation in the making."""

    node_id: str
    node_name: str
    device_ids: tuple[str, ...]
    resources: dict[str, int]


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """What taking these atoms of a node costs others; the smallest wins."""

    late_choice: int  #: silent or softly tainted nodes come last
    fewer: int  #: a range takes as many as fit: minus the count
    memory_gib: int  #: no H200 where a T4 does
    breaks_node: bool  #: a node that was wholly free is so no more
    breaks_groups: int  #: and so many NVLink groups
    left_over: int  #: atoms still free on the node


@dataclass(frozen=True, slots=True)
class Fit:
    """How a node (or any of its shape) would serve the lines."""

    counts: topology.Counts
    cost: Cost
    worth: int


def fit(node: Node, lines: Sequence[Line], demand: Demand, budget: topology.Budget) -> Fit | None:
    """How the node would serve all lines, or None."""
    if not filters.admits(node, lines, demand):
        return None
    worths = filters.worths(lines, demand)
    counts = topology.allot(
        lines,
        node.cells,
        [len(cell.free) for cell in node.cells],
        worths=worths,
        cap=filters.cap(node, demand),
        budget=budget,
    )
    if counts is None:
        return None
    taken = sum(sum(line.values()) * one for line, one in zip(counts, worths, strict=True))
    return Fit(counts, _cost(node, counts, demand), taken)


def part(
    node: Node, counts: topology.Counts, worth: int, demand: Demand, rng: random.Random
) -> Part:
    """The atoms themselves: any of a cell is as good as another."""
    device_ids: list[str] = []
    for index, cell in enumerate(node.cells):
        wanted = sum(line.get(index, 0) for line in counts)
        device_ids += rng.sample(cell.free, wanted)
    return Part(
        node_id=node.id,
        node_name=node.name,
        device_ids=tuple(sorted(device_ids)),
        resources=filters.amounts(node, worth, demand),
    )


def _cost(node: Node, counts: topology.Counts, demand: Demand) -> Cost:
    taken = [sum(line.get(index, 0) for line in counts) for index in range(len(node.cells))]
    free = sum(len(cell.free) for cell in node.cells)
    total = sum(cell.total for cell in node.cells)
    count = sum(taken)
    return Cost(
        late_choice=filters.late_choice(node, demand),
        fewer=-count,
        memory_gib=sum(
            cell.memory_gib * number for cell, number in zip(node.cells, taken, strict=True)
        ),
        breaks_node=free == total and count < free,
        breaks_groups=_broken_groups(node, taken),
        left_over=free - count,
    )


def _broken_groups(node: Node, taken: Sequence[int]) -> int:
    """NVLink groups that were wholly free and would be free in part."""
    groups: dict[int, list[int]] = {}
    for index, cell in enumerate(node.cells):
        if cell.nvlink_group is not None:
            groups.setdefault(cell.nvlink_group, []).append(index)
    return sum(
        1
        for members in groups.values()
        if all(len(node.cells[index].free) == node.cells[index].total for index in members)
        and 0
        < sum(taken[index] for index in members)
        < sum(node.cells[index].total for index in members)
    )
