"""From a snapshot and a demand to a plan, or to the reasons why there is none (R15).

Pure and in integers: the same snapshot, demand and random numbers give the same plan. What it
answers is only likely to hold; the commit decides, under locks. ``anyOf`` alternatives are tried in
the order of preference: the first combination that fits anywhere is taken.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bettercompute.units import Unit
from bettercompute.wire.capacity import Filter
from bettercompute.wire.reservations import GangTopology
from pools.planner import filters, gangs, packing, reasons, shapes, spread, topology
from pools.planner.packing import Fit, Part
from pools.planner.request import Demand, Line
from pools.planner.shapes import Shape
from pools.planner.snapshot import Node, Snapshot

COMBINATIONS_MAX = 64  # of alternatives; what is behind is not tried

Combination = tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Which atoms of which nodes to take: one part a node, each an allocation in the making."""

    parts: tuple[Part, ...]
    lines: Combination  #: the alternatives chosen

    @property
    def node_ids(self) -> list[str]:
        """The nodes, sorted (C13)."""
        return sorted(part.node_id for part in self.parts)

    @property
    def device_ids(self) -> list[str]:
        """The atoms, sorted (C9)."""
        return sorted(device for part in self.parts for device in part.device_ids)


@dataclass(frozen=True, slots=True)
class NoFit:
    """The snapshot cannot serve the demand, for these reasons."""

    reasons: tuple[reasons.Reason, ...]


def plan(
    demand: Demand,
    snapshot: Snapshot,
    *,
    rng: random.Random,
    exclude_nodes: frozenset[str] = frozenset(),
) -> Plan | NoFit:
    """The best plan, taking nothing of ``exclude_nodes``, or why there is none."""
    found = attempt(demand, snapshot, rng=rng, exclude_nodes=exclude_nodes)
    if found is not None:
        return found
    why = _explain(demand, shapes.group(snapshot.nodes, demand), topology.Budget())
    if demand.combinations > 1:  # there may be enough of another alternative
        why = tuple(replace(reason, most=None) for reason in why)
    return NoFit(why)


def attempt(
    demand: Demand,
    snapshot: Snapshot,
    *,
    rng: random.Random,
    exclude_nodes: frozenset[str] = frozenset(),
) -> Plan | None:
    """The same for who needs no reasons: None where it does not fit."""
    budget = topology.Budget()
    usable = shapes.group((node for node in snapshot.nodes if node.id not in exclude_nodes), demand)
    for lines in _combinations(demand, snapshot):
        found = _serve(demand, lines, usable, budget, rng)
        if found is not None:
            return Plan(tuple(found), lines)
    return None


def _combinations(demand: Demand, snapshot: Snapshot) -> Iterator[Combination]:
    """In a part of the pool only what is preferred: the rest is for where that is nowhere."""
    most = COMBINATIONS_MAX if snapshot.whole else 1
    return itertools.islice(itertools.product(*demand.lines), most)


def _serve(
    demand: Demand,
    lines: Combination,
    usable: Sequence[Shape],
    budget: topology.Budget,
    rng: random.Random,
) -> Iterable[Part] | None:
    found = list(fits(demand, lines, usable, budget))
    if demand.gang is not None:
        members = [(node, fit) for shape, fit in found for node in shape.nodes]
        chosen = gangs.choose(demand.gang, members, rng)
        if chosen is None:
            return None
        return [packing.part(node, fit.counts, fit.worth, demand, rng) for node, fit in chosen]
    most = sum(line.maximum for line in lines)
    if found and (not demand.may_spread or any(-fit.cost.fewer == most for _, fit in found)):
        return [_best(demand, found, rng)]
    if demand.may_spread:
        nodes = [node for shape in usable for node in shape.nodes]
        return spread.choose(nodes, lines, demand, rng)
    return None


def fits(
    demand: Demand, lines: Combination, usable: Sequence[Shape], budget: topology.Budget
) -> Iterator[tuple[Shape, Fit]]:
    """The shapes of which one node serves all lines, and how."""
    for shape in usable:
        found = packing.fit(shape.sample, lines, demand, budget)
        if found is not None:
            yield shape, found


def _best(demand: Demand, found: Sequence[tuple[Shape, Fit]], rng: random.Random) -> Part:
    """The cheapest node; among equals any, whatever their shape (C18)."""
    lowest = min(fit.cost for _, fit in found)
    node, fit = rng.choice(
        [(node, fit) for shape, fit in found if fit.cost == lowest for node in shape.nodes]
    )
    return packing.part(node, fit.counts, fit.worth, demand, rng)


def _explain(
    demand: Demand, everything: Sequence[Shape], budget: topology.Budget
) -> tuple[reasons.Reason, ...]:
    """Reasons of the first combination: the one that was preferred."""
    lines = tuple(options[0] for options in demand.lines)
    if not demand.may_spread:
        fitting, rejected = _judge(demand, lines, everything, budget)
        names = [node.name for node in fitting]
        short = _too_few(demand, rejected, len(fitting))
        if short is not None:
            rejected.append((short, names))
        elif fitting:
            rejected.append((_unplaced(demand, lines, len(fitting)), names))
        return reasons.tally(rejected)
    rejected = []
    for line in lines:
        one = (replace(line, minimum=1, maximum=1),)
        fitting, refused = _judge(demand, one, everything, budget)
        rejected += refused
        there_are = _in_all(line, one, everything, demand)
        if there_are < line.minimum and all(shape.sample.has_reported for shape in everything):
            most = {line.unit: there_are}
            rejected.append((reasons.Rejection(Filter.CLASS, str(line), most=most), []))
        elif fitting:
            too_few = reasons.Rejection(Filter.BUSY, f"{line} free")
            rejected.append((too_few, [node.name for node in fitting]))
    return reasons.tally(rejected)


def _judge(
    demand: Demand, lines: Combination, everything: Sequence[Shape], budget: topology.Budget
) -> tuple[list[Node], list[tuple[reasons.Rejection, list[str]]]]:
    """The nodes that would serve these lines by themselves, and what is wrong with the others."""
    fitting: list[Node] = []
    rejected: list[tuple[reasons.Rejection, list[str]]] = []
    for shape in everything:
        if packing.fit(shape.sample, lines, demand, budget) is not None:
            fitting += shape.nodes
            continue
        rejection = filters.rejection(shape.sample, lines, demand, budget)
        if rejection.filter is Filter.BUSY:
            until = _soonest(shape.nodes, lines, demand, budget)
            rejection = replace(rejection, until_ms=until)
        rejected.append((rejection, shape.names))
    return fitting, rejected


def _soonest(
    nodes: Sequence[Node], lines: Combination, demand: Demand, budget: topology.Budget
) -> int | None:
    """When the first of these nodes has enough; one that gets nothing back by then is left out."""
    first_ends = [
        (min((cell.busy_until[0] for cell in node.cells if cell.busy_until), default=0), index)
        for index, node in enumerate(nodes)
    ]
    soonest: int | None = None
    for first_end, index in sorted(first_ends):
        if soonest is not None and first_end >= soonest:
            break
        until = filters.free_at(nodes[index], lines, demand, budget)
        if until is not None:
            soonest = until if soonest is None else min(soonest, until)
    return soonest


def _too_few(
    demand: Demand, rejected: Sequence[tuple[reasons.Rejection, list[str]]], fitting: int
) -> reasons.Rejection | None:
    """Where a gang wants more nodes than could serve it with nothing booked."""
    if demand.gang is None:
        return None
    could = fitting + sum(len(names) for each, names in rejected if each.most is None)
    if could >= demand.gang.nodes:
        return None
    needs = f"{demand.gang.nodes} nodes at once"
    return reasons.Rejection(Filter.GANG, needs, most={Unit("of them", "of them"): could})


def _in_all(line: Line, one: Combination, everything: Sequence[Shape], demand: Demand) -> int:
    """How many such devices the pool has, on nodes that would serve one with nothing booked."""
    budget = topology.Budget()
    return sum(
        filters.devices_of(shape.sample, line) * len(shape.nodes)
        for shape in everything
        if filters.rejection(shape.sample, one, demand, budget).most is None
    )


def _unplaced(demand: Demand, lines: Combination, fitting: int) -> reasons.Rejection:
    """Why nodes that fit by themselves are not enough."""
    if demand.gang is None:  # they were excluded: what was free there went to a rival
        return reasons.Rejection(Filter.BUSY, " + ".join(str(line) for line in lines) + " free")
    where = "" if demand.gang.topology is GangTopology.ANY else f" {demand.gang.topology}"
    return reasons.Rejection(
        Filter.GANG, f"{demand.gang.nodes} nodes{where} at once; {fitting} fit alone"
    )
