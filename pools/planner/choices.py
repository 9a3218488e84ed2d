"""The plans that a demand has on some nodes, the best first: for whoever plans several together.

``plan.plan`` answers the best plan and never looks back. A batch may have to: what is best for one
may be the only place of another. So here a demand's plans come one after the other, one for each
kind of node (or mixture of kinds, for a gang) that would do.
"""

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice, product

from pools.planner import gangs, packing, plan, shapes, spread, topology
from pools.planner.gangs import Member
from pools.planner.packing import Fit, Part
from pools.planner.plan import Combination, Plan
from pools.planner.request import Demand, Gang
from pools.planner.shapes import Shape
from pools.planner.snapshot import Node

# What tells nodes apart that are alike to one demand, but not to those that it is planned with.
Kind = Callable[[Node], Hashable]
Group = Callable[[Iterable[Node], Demand], list[Shape]]


def of(
    demand: Demand,
    nodes: Sequence[Node],
    *,
    rng: random.Random,
    kind: Kind = lambda _: None,
    group: Group = shapes.group,
) -> Iterator[Plan]:
    """Every plan that differs in more than which of equal nodes and atoms it takes.

    The first is as good as the one ``plan.plan`` answers. Devices that may come from several nodes
    are taken as they are there, in one way.
    """
    budget = topology.Budget()
    usable = group(nodes, demand)
    for lines in islice(product(*demand.lines), plan.COMBINATIONS_MAX):
        for parts in _ways(demand, lines, usable, budget, rng, kind=kind):
            yield Plan(tuple(parts), lines)


def _ways(
    demand: Demand,
    lines: Combination,
    usable: Sequence[Shape],
    budget: topology.Budget,
    rng: random.Random,
    *,
    kind: Kind,
) -> Iterator[list[Part]]:
    fits = list(plan.fits(demand, lines, usable, budget))
    if demand.gang is not None:
        for members in _gangs(demand.gang, fits, rng, kind):
            yield [_part(member, demand, rng) for member in members]
        return
    most = sum(line.maximum for line in lines)
    if not demand.may_spread or any(-fit.cost.fewer == most for _, fit in fits):
        for alike in _by_cost(fits, rng, kind):
            yield [_part(rng.choice(alike), demand, rng)]
        return
    nodes = [node for shape in usable for node in shape.nodes]
    parts = spread.choose(nodes, lines, demand, rng)
    if parts is not None:
        yield parts


def _gangs(
    gang: Gang, fits: Sequence[tuple[Shape, Fit]], rng: random.Random, kind: Kind
) -> Iterator[list[Member]]:
    """First the gang that is best, then every mixture of kinds in every place."""
    best = gangs.choose(gang, [(node, fit) for shape, fit in fits for node in shape.nodes], rng)
    if best is None:
        return
    yield best
    places: dict[str, list[list[Member]]] = {}
    for alike in _by_cost(fits, rng, kind):
        place = gangs.where(gang, alike[0][0])  # nodes that are alike stand in one place
        if place is not None:
            places.setdefault(place, []).append(alike)
    for kinds in places.values():
        for amounts in _mixtures([len(alike) for alike in kinds], gang.nodes):
            yield [
                member
                for alike, amount in zip(kinds, amounts, strict=True)
                for member in rng.sample(alike, amount)
            ]


def _by_cost(
    fits: Sequence[tuple[Shape, Fit]], rng: random.Random, kind: Kind
) -> list[list[Member]]:
    """The nodes that are alike with how they serve, the cheapest first, equals at random."""
    alike: list[list[Member]] = []
    for shape, fit in fits:
        kinds: dict[Hashable, list[Member]] = {}
        for node in shape.nodes:
            kinds.setdefault(kind(node), []).append((node, fit))
        alike += kinds.values()
    rng.shuffle(alike)
    return sorted(alike, key=lambda members: members[0][1].cost)


def _part(member: Member, demand: Demand, rng: random.Random) -> Part:
    node, fit = member
    return packing.part(node, fit.counts, fit.worth, demand, rng)


def _mixtures(sizes: Sequence[int], wanted: int) -> Iterator[tuple[int, ...]]:
    """Every way to take so many of kinds of these sizes, the most of the first kinds first."""
    if not sizes:
        if wanted == 0:
            yield ()
        return
    rest = sum(sizes[1:])
    for amount in range(min(sizes[0], wanted), max(0, wanted - rest) - 1, -1):
        for others in _mixtures(sizes[1:], wanted - amount):
            yield (amount, *others)
