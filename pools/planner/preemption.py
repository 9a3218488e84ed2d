"""Which spot reservations have to give way so that a demand fits (R19). Pure, as the planner.

The candidates come in order, the cheapest first. What is chosen has three properties, and the tests
hold them against trying everything:

- the demand fits once the victims are gone: nobody gives way in vain;
- not one of them could stay: without any single one it would not fit;
- the dearest of them is as cheap as can be: no choice among cheaper candidates would do.

A victim gives way whole. One that holds devices of several nodes frees all of them.
"""

import random
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pools.planner import plan as planner
from pools.planner.plan import Plan
from pools.planner.request import Demand
from pools.planner.snapshot import Cell, Node, Snapshot

_Fit = Callable[[Sequence[str]], Plan | None]


@dataclass(frozen=True, slots=True)
class HeldAtom:
    """A device that nothing but candidates has booked within the window."""

    device_id: str
    node_id: str
    cell: Cell  #: what it is; whose atoms are free does not matter here
    holders: frozenset[str]


@dataclass(frozen=True, slots=True)
class HeldAmount:
    """A booking of a host's resource within the window, by a candidate or by somebody else."""

    amount: int
    start_ms: int
    end_ms: int
    holder: str | None


@dataclass(frozen=True, slots=True)
class HostResource:
    """What a host has of one resource, and who has booked how much of it when."""

    node_id: str
    resource: str
    capacity: int
    bookings: tuple[HeldAmount, ...] = ()

    def free(self, without: frozenset[str]) -> int:
        """What is left of it at the window's peak when these have gone."""
        kept = [each for each in self.bookings if each.holder not in without]
        # The level rises only where a booking starts, so its peak is at one of the starts.
        peak = max((_level(kept, each.start_ms) for each in kept), default=0)
        return self.capacity - peak


@dataclass(frozen=True, slots=True)
class Held:
    """What the candidates hold within the window."""

    candidates: tuple[str, ...]  #: the cheapest first
    atoms: tuple[HeldAtom, ...]
    resources: tuple[HostResource, ...] = ()
    nodes_of: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def nodes(self, candidate: str) -> frozenset[str]:
        """Where a candidate holds anything."""
        return self.nodes_of.get(candidate, frozenset())


@dataclass(frozen=True, slots=True)
class Choice:
    """Who gives way, and the plan that fits then."""

    victims: tuple[str, ...]
    plan: Plan


def choose(
    demand: Demand,
    snapshot: Snapshot,
    held: Held,
    *,
    rng: random.Random,
    exclude_nodes: frozenset[str] = frozenset(),
) -> Choice | None:
    """The cheapest victims, none where nobody needs to give way; None where nothing is won."""
    ground = _ground(snapshot, held)

    def fit(victims: Sequence[str]) -> Plan | None:
        freed = _without(ground, held, frozenset(victims))
        return planner.attempt(demand, freed, rng=rng, exclude_nodes=exclude_nodes)

    order = held.candidates
    beside = fit(())
    if beside is not None:
        return Choice((), beside)
    if not order or fit(order) is None:
        return None
    enough = bisect_left(range(1, len(order)), True, key=lambda n: fit(order[:n]) is not None) + 1
    found = fit(order[:enough])
    if found is None:  # the planner's own bound on its search, between two looks
        return None
    here = set(found.node_ids)
    return _spare(Choice(tuple(c for c in order[:enough] if held.nodes(c) & here), found), fit)


def _spare(choice: Choice, fit: _Fit) -> Choice:
    """Whoever can be spared is, the dearest first."""
    for victim in reversed(choice.victims):
        fewer = tuple(each for each in choice.victims if each != victim)
        found = fit(fewer)
        if found is not None:
            choice = Choice(fewer, found)
    return choice


def _ground(snapshot: Snapshot, held: Held) -> Snapshot:
    """The nodes that could matter: those with victims, and those with room."""
    touched = {node for candidate in held.candidates for node in held.nodes(candidate)}
    return Snapshot(
        tuple(
            node
            for node in snapshot.nodes
            if node.id in touched or any(cell.free for cell in node.cells)
        )
    )


def _without(ground: Snapshot, held: Held, victims: frozenset[str]) -> Snapshot:
    """The nodes as they are when these have gone."""
    freed: dict[str, list[HeldAtom]] = {}
    for atom in held.atoms:
        if atom.holders <= victims:
            freed.setdefault(atom.node_id, []).append(atom)
    amounts: dict[str, dict[str, int]] = {}
    for each in held.resources:
        amounts.setdefault(each.node_id, {})[each.resource] = each.free(victims)
    return Snapshot(
        tuple(
            replace(
                node,
                cells=_freed(node, freed.get(node.id, ())),
                resources={**node.resources, **amounts.get(node.id, {})},
            )
            for node in ground.nodes
        )
    )


def _freed(node: Node, atoms: Iterable[HeldAtom]) -> tuple[Cell, ...]:
    by_kind: dict[Hashable, list[str]] = {}
    for atom in atoms:
        by_kind.setdefault(atom.cell.kind, []).append(atom.device_id)
    return tuple(_with_free(cell, by_kind.pop(cell.kind, ())) for cell in node.cells)


def _with_free(cell: Cell, more: Sequence[str]) -> Cell:
    if not more:
        return cell
    # Which ends they had does not matter: what still stands in the way is counted, not dated.
    left = cell.busy_until[: max(0, len(cell.busy_until) - len(more))]
    return replace(cell, free=(*cell.free, *sorted(more)), busy_until=left)


def _level(bookings: Iterable[HeldAmount], at_ms: int) -> int:
    return sum(each.amount for each in bookings if each.start_ms <= at_ms < each.end_ms)
