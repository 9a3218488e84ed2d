"""Devices of topology ``any``, from as many nodes as it takes.

How much each line gets of which kind of atom is a flow over kinds (atoms that the same lines
match), so no line is starved by another's choice. Then nodes are taken in turn: those in use
already before whole ones, the fullest supply first, to keep nodes free and parts few. Where host
resources bound what a node can give, that bound is in atoms of the line's largest worth: exact for
requests of one class, careful for mixed ones. A node that is bound and has several kinds is part of
the flow by itself, since what it gives of one it cannot give of another.
"""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from pools.planner import filters, packing, topology
from pools.planner.request import Demand, Line
from pools.planner.snapshot import Node

Kind = frozenset[int]  # the lines that an atom would serve


# Atoms of a kind wherever they are; or, of a node that is bound, with the node's number.
Supply = tuple[Kind, int | None]


@dataclass(slots=True)
class _Source:
    """A node, and how many atoms of each of its cells it can give, and in all."""

    node: Node
    give: list[int]
    kinds: list[Kind]
    counts: list[dict[int, int]]
    most: int | None  #: where that is less than its cells have together, and it has several kinds


def choose(
    nodes: Sequence[Node], lines: Sequence[Line], demand: Demand, rng: random.Random
) -> list[packing.Part] | None:
    """The parts, one a node, or None if the pool has too few."""
    sources = _sources(nodes, lines, demand, rng)
    amounts = _amounts(sources, lines)
    if amounts is None:
        return None
    for (line, (kind, number)), amount in amounts.items():
        some = [each for each in sources if each.most is None]
        _take(some if number is None else [sources[number]], line, kind, amount)
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
        give = [len(cell.free) if kind else 0 for cell, kind in zip(node.cells, kinds, strict=True)]
        most = None if cap is None else cap // largest
        if most is not None and len({k for k, some in zip(kinds, give, strict=True) if some}) < 2:
            give, most = _bounded(give, most), None
        if any(give) and most != 0 and filters.admits(node, lines, demand):
            bound = most if most is not None and most < sum(give) else None
            sources.append(_Source(node, give, kinds, [{} for _ in lines], bound))
    sources.sort(key=lambda source: _turn(source, demand))
    return sources


def _bounded(give: Sequence[int], most: int) -> list[int]:
    """The first so many of them: which does not matter where all are of one kind."""
    before = list(itertools.accumulate(give, initial=0))
    return [max(0, min(some, most - sum_)) for some, sum_ in zip(give, before, strict=False)]


def _turn(source: _Source, demand: Demand) -> tuple[int, bool, int]:
    whole = all(len(cell.free) == cell.total for cell in source.node.cells)
    return filters.late_choice(source.node, demand), whole, -sum(source.give)


def _amounts(
    sources: Sequence[_Source], lines: Sequence[Line]
) -> dict[tuple[int, Supply], int] | None:
    """How many atoms of each supply each line takes: the minimums, then as many as there are."""
    supply: dict[Supply, int] = {}
    for number, source in enumerate(sources):
        for kind, some in zip(source.kinds, source.give, strict=True):
            key = kind, None if source.most is None else number
            supply[key] = supply.get(key, 0) + some
    # Kinds that fewer lines can use go first, so the versatile atoms are left for the others.
    keys = sorted(supply, key=lambda key: (len(key[0]), sorted(key[0]), key[1] or -1))
    bound = [number for number, source in enumerate(sources) if source.most is not None]
    bin_of = {number: place for place, number in enumerate(bound)}
    flow = topology.Flow(
        [supply[key] for key in keys],
        bins={place: bin_of[key[1]] for place, key in enumerate(keys) if key[1] is not None},
        room=[sources[number].most or 0 for number in bound],
    )
    for index, line in enumerate(lines):
        cells = tuple(place for place, (kind, _) in enumerate(keys) if index in kind)
        if not flow.add(topology.Group(cells, line.maximum), line.minimum):
            return None
    for index, line in enumerate(lines):
        flow.push(index, line.maximum - line.minimum)
    return {
        (index, keys[place]): amount
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
