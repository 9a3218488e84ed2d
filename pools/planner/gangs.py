"""A gang: so many distinct nodes, each serving every line, all or nothing (R16).

Members are alike, so nodes that fit are counted per rack or switch and nothing is searched. The
tightest place that has enough is taken, and in it the cheapest nodes.
"""

import random
from collections.abc import Sequence

from pools.planner.packing import Fit
from pools.planner.request import GANG_LABELS, Gang
from pools.planner.snapshot import Node

Member = tuple[Node, Fit]


def choose(gang: Gang, members: Sequence[Member], rng: random.Random) -> list[Member] | None:
    """The nodes of the gang, or None: nothing is taken for half of one."""
    places: dict[str, list[Member]] = {}
    for member in members:
        place = where(gang, member[0])
        if place is not None:
            places.setdefault(place, []).append(member)
    enough = [place for place in places.values() if len(place) >= gang.nodes]
    if not enough:
        return None
    cheapest = [_cheapest(place, gang.nodes, rng) for place in enough]
    costs = [
        (_late(chosen), len(place), sorted(fit.cost for _, fit in chosen), rng.random(), chosen)
        for place, chosen in zip(enough, cheapest, strict=True)
    ]
    return min(costs, key=lambda cost: cost[:4])[4]


def where(gang: Gang, node: Node) -> str | None:
    """The place whose nodes are near enough to each other; None: the node is near nobody."""
    label = GANG_LABELS.get(gang.topology)
    return "" if label is None else node.label(label)


def _cheapest(place: Sequence[Member], count: int, rng: random.Random) -> list[Member]:
    shuffled = rng.sample(place, len(place))
    return sorted(shuffled, key=lambda member: member[1].cost)[:count]


def _late(chosen: Sequence[Member]) -> int:
    return sum(fit.cost.late_choice for _, fit in chosen)
