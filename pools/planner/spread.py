"""Devices of topology ``any``, from as many nodes as it takes.

How much each line gets of which kind of atom is a flow over kinds (atoms that the same lines
match), so no line is starved by another's choice. Then nodes are taken in turn: those in use
already before whole ones, the fullest supply first, to keep nodes free and parts few. Where host
resources bound what a node can give, that bound is in atoms of the line's largest worth: exact for
requests of one class, careful for mixed ones.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pools.planner import filters, packing, topology
from pools.planner.request import Demand, Line
from pools.planner.snapshot import Node

Kind = frozenset[int]  # the lines that an atom would serve


@dataclass(slots=True)
class _Source:
    """A node, and how many atoms of each of its cells it can give."""

    node: Node
    give: list[int]
    kinds: list[Kind]
    counts: list[dict[int, int]]


def choose(
    nodes: Sequence[Node], lines: Sequence[Line], demand: Demand, rng: random.Random
) -> list[packing.Part] | None:
    """The parts, one a node, or None if the pool has too few."""
    sources = _sources(nodes, lines, demand, rng)
    amounts = _amounts(sources, lines)
    if amounts is None:
        return None
    for (line, kind), amount in amounts.items():
        _take(sources, line, kind, amount)
    return [_part(source, lines, demand, rng) for source in sources if any(source.counts)]


def _part(
    source: _Source, lines: Sequence[Line], demand: Demand, rng: random.Random
) -> packing.Part:
    worth = sum(
        sum(taken.values()) * one
        for taken, one in zip(source.counts, filters.worths(lines, demand), strict=True)
    )
    return packing.part(source.node, tuple(source.counts), worth, demand, rng)


def _sources(
    nodes: Sequence[Node], lines: Sequence[Line], demand: Demand, rng: random.Random
) -> list[_Source]:
    largest = max(filters.worths(lines, demand))
    sources = []
    for node in rng.sample(nodes, len(nodes)):
        kinds = [
            frozenset(i for i, line in enumerate(lines) if topology.matches(line, cell))
            for cell in node.cells
        ]
        cap = filters.cap(node, demand)
        left = None if cap is None else cap // largest
        give = []
        for cell, kind in zip(node.cells, kinds, strict=True):
            some = len(cell.free) if kind else 0
            some = some if left is None else min(some, left)
            left = None if left is None else left - some
            give.append(some)
        if any(give) and filters.admits(node, lines, demand):
            sources.append(_Source(node, give, kinds, [{} for _ in lines]))
    sources.sort(key=lambda source: _turn(source, demand))
    return sources


def _turn(source: _Source, demand: Demand) -> tuple[int, bool, int]:
    whole = all(len(cell.free) == cell.total for cell in source.node.cells)
    return filters.late_choice(source.node, demand), whole, -sum(source.give)


def _amounts(
    sources: Sequence[_Source], lines: Sequence[Line]
) -> dict[tuple[int, Kind], int] | None:
    """How many atoms of each kind each line takes: the minimums, then as many as there are."""
    supply: dict[Kind, int] = {}
    for source in sources:
        for kind, some in zip(source.kinds, source.give, strict=True):
            supply[kind] = supply.get(kind, 0) + some
    # Kinds that fewer lines can use go first, so the versatile atoms are left for the others.
    kinds = sorted(supply, key=lambda kind: (len(kind), sorted(kind)))
    flow = topology.Flow([supply[kind] for kind in kinds])
    for index, line in enumerate(lines):
        cells = tuple(place for place, kind in enumerate(kinds) if index in kind)
        if not flow.add(topology.Group(cells, line.maximum), line.minimum):
            return None
    for index, line in enumerate(lines):
        flow.push(index, line.maximum - line.minimum)
    return {
        (index, kinds[place]): amount
        for index, taken in enumerate(flow.taken)
        for place, amount in taken.items()
        if amount
    }


def _take(sources: Sequence[_Source], line: int, kind: Kind, amount: int) -> None:
    for source in sources:
        for cell, some in enumerate(source.give):
            if amount == 0:
                return
            if source.kinds[cell] != kind or some == 0:
                continue
            taken = min(some, amount)
            source.give[cell] -= taken
            source.counts[line][cell] = source.counts[line].get(cell, 0) + taken
            amount -= taken
    assert amount == 0, "the flow counted what these sources give"
