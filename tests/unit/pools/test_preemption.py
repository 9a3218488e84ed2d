"""Who has to give way (R19): against trying every set of candidates, and examples by hand."""

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from pools.planner import plan as planner
from pools.planner import preemption
from pools.planner.preemption import Choice, Held, HeldAmount, HeldAtom, HostResource
from pools.planner.request import Demand, Gang
from pools.planner.snapshot import Cell, Node, Snapshot
from tests.support import snapshots

pytestmark = pytest.mark.rule("R19", "R15")

CANDIDATES = ("a", "b", "c", "d", "e")


def choose(demand: Demand, snapshot: Snapshot, held: Held) -> Choice | None:
    return preemption.choose(demand, snapshot, held, rng=random.Random(0))


def busy(node: Node, *holders: str) -> list[HeldAtom]:
    """One atom of the node's first cell for each of these."""
    return [
        HeldAtom(f"GPU-{node.name}-{holder}-{number}", node.id, node.cells[0], frozenset(holder))
        for number, holder in enumerate(holders)
    ]


def held(*atoms: HeldAtom, resources: Iterable[HostResource] = ()) -> Held:
    named = sorted({holder for atom in atoms for holder in atom.holders})
    nodes_of = {
        each: frozenset(atom.node_id for atom in atoms if each in atom.holders) for each in named
    }
    return Held(tuple(named), tuple(atoms), tuple(resources), nodes_of)


def full(name: str, gpus: int = 2, **changes: object) -> Node:
    return snapshots.node(snapshots.cell(0, busy=[1] * gpus), name=name, **changes)


def test_the_cheapest_that_make_room_give_way_and_nobody_else():
    one, two = full("one"), full("two")
    everything = held(*busy(one, "d", "e"), *busy(two, "b", "c"))
    found = choose(snapshots.demand(snapshots.line(2)), Snapshot((one, two)), everything)
    assert found is not None
    assert found.victims == ("b", "c")
    assert found.plan.node_ids == [two.id]


def test_whoever_holds_more_than_is_needed_goes_whole_and_alone():
    one = full("one", gpus=4)
    everything = held(*busy(one, "a", "b", "b", "b"))
    found = choose(snapshots.demand(snapshots.line(3)), Snapshot((one,)), everything)
    assert found is not None
    assert found.victims == ("b",), "without b nothing fits, and without a all the same"


def test_nobody_gives_way_where_that_would_not_be_enough():
    one = full("one")
    everything = held(*busy(one, "a"))
    assert choose(snapshots.demand(snapshots.line(2)), Snapshot((one,)), everything) is None


def test_nobody_gives_way_for_what_fits_beside_them():
    one = full("one")
    room = snapshots.node(snapshots.cell(2), name="room")
    everything = held(*busy(one, "a", "b"))
    found = choose(snapshots.demand(snapshots.line(2)), Snapshot((one, room)), everything)
    assert found is not None
    assert (found.victims, found.plan.node_ids) == ((), [room.id])


def test_a_gang_takes_the_room_there_is_and_preempts_for_the_rest():
    one, two = full("one"), full("two")
    room = snapshots.node(snapshots.cell(2), name="room")
    everything = held(*busy(one, "a", "b"), *busy(two, "c", "d"))
    gang = snapshots.demand(snapshots.line(2), gang=Gang(2))
    found = choose(gang, Snapshot((one, two, room)), everything)
    assert found is not None
    assert found.victims == ("a", "b")
    assert found.plan.node_ids == sorted([one.id, room.id])


def test_a_victim_on_several_nodes_frees_them_all():
    one, two = full("one", 1), full("two", 1)
    everything = held(*busy(one, "b"), *busy(two, "b"))
    gang = snapshots.demand(snapshots.line(1), gang=Gang(2))
    found = choose(gang, Snapshot((one, two)), everything)
    assert found is not None
    assert found.victims == ("b",)


def test_a_device_that_somebody_else_has_too_is_not_won():
    one = full("one", 1)
    shared = HeldAtom("GPU-1", one.id, one.cells[0], frozenset({"a", "b"}))
    everything = held(shared)
    found = choose(snapshots.demand(snapshots.line(1)), Snapshot((one,)), everything)
    assert found is not None
    assert found.victims == ("a", "b"), "both have it at some time within the window"


def test_the_hosts_cpus_are_won_too_where_they_are_what_is_missing():
    one = snapshots.node(snapshots.cell(1, busy=[1, 1]), name="one", resources={"vcpu": 0})
    cpus = HostResource(
        one.id,
        "vcpu",
        10,
        (HeldAmount(4, 0, 100, "a"), HeldAmount(6, 0, 50, "b"), HeldAmount(4, 50, 100, None)),
    )
    everything = held(*busy(one, "a", "b"), resources=[cpus])
    wanted = snapshots.demand(snapshots.line(1), resources={"vcpu": 4})
    found = choose(wanted, Snapshot((one,)), everything)
    assert found is not None
    assert found.victims == ("a",), "b's end in the middle leaves room only for its own time"


def test_a_peak_is_where_most_is_booked_at_once():
    cpus = HostResource(
        "n",
        "vcpu",
        10,
        (HeldAmount(4, 0, 9, "a"), HeldAmount(4, 5, 20, "b"), HeldAmount(3, 20, 30, None)),
    )
    assert cpus.free(frozenset()) == 2
    assert cpus.free(frozenset("a")) == 6
    assert cpus.free(frozenset("ab")) == 7


# --- against trying every set --------------------------------------------------------------------


@st.composite
def situations(draw: st.DrawFn) -> tuple[Snapshot, Held]:
    """A pool in which candidates hold some of what is busy, each atom by one or two of them."""
    snapshot = draw(snapshots.snapshots)
    atoms = []
    for node in snapshot.nodes:
        for index, cell in enumerate(node.cells):
            for number in range(len(cell.busy_until)):
                holders = draw(st.sets(st.sampled_from(CANDIDATES), max_size=2))
                if holders:
                    name = f"GPU-{node.name}-{index}-{number}"
                    atoms.append(HeldAtom(name, node.id, cell, frozenset(holders)))
    hosts = []
    for node in snapshot.nodes:
        if "vcpu" in node.resources:
            taken = draw(st.lists(st.tuples(st.sampled_from(CANDIDATES), st.integers(1, 6))))
            amounts = tuple(HeldAmount(amount, 0, 1, holder) for holder, amount in taken)
            capacity = node.resources["vcpu"] + sum(each.amount for each in amounts)
            hosts.append(HostResource(node.id, "vcpu", capacity, amounts))
    return snapshot, _with_nodes(atoms, hosts)


def _with_nodes(atoms: list[HeldAtom], hosts: list[HostResource]) -> Held:
    nodes_of: dict[str, set[str]] = {each: set() for each in CANDIDATES}
    for atom in atoms:
        for holder in atom.holders:
            nodes_of[holder].add(atom.node_id)
    for host in hosts:
        for each in host.bookings:
            nodes_of[each.holder or ""].add(host.node_id)
    frozen = {each: frozenset(nodes) for each, nodes in nodes_of.items()}
    return Held(CANDIDATES, tuple(atoms), tuple(hosts), frozen)


@settings(max_examples=80, deadline=None)
@given(snapshots.demands, situations())
def test_the_victims_are_those_that_trying_every_set_would_choose(demand, situation):
    snapshot, everything = situation
    found = choose(demand, snapshot, everything)
    sets = [set(some) for n in range(6) for some in combinations(CANDIDATES, n)]
    enough = [some for some in sets if _fits(demand, snapshot, everything, some)]
    event("nothing" if found is None else f"{len(found.victims)} victims")
    assert (found is not None) == bool(enough)
    if found is None:
        return
    victims = set(found.victims)
    assert victims in enough
    assert not any(fewer < victims for fewer in enough), "somebody could have stayed"
    dearest = min(max(some, default="") for some in enough)
    assert max(victims, default="") == dearest, "the dearest is too dear"
    freed = {atom.device_id for atom in everything.atoms if atom.holders <= victims}
    free = {atom for node in snapshot.nodes for cell in node.cells for atom in cell.free}
    assert set(found.plan.device_ids) <= free | freed


def _fits(demand: Demand, snapshot: Snapshot, everything: Held, gone: set[str]) -> bool:
    """By rebuilding each node from what is left on it."""
    nodes = []
    for node in snapshot.nodes:
        amounts = {
            host.resource: host.capacity
            - sum(each.amount for each in host.bookings if each.holder not in gone)
            for host in everything.resources
            if host.node_id == node.id
        }
        cells = [
            _rebuilt(cell, [a for a in everything.atoms if a.cell is cell and a.holders <= gone])
            for cell in node.cells
        ]
        nodes.append(replace(node, cells=tuple(cells), resources=amounts or node.resources))
    return planner.attempt(demand, Snapshot(tuple(nodes)), rng=random.Random(0)) is not None


def _rebuilt(cell: Cell, freed: list[HeldAtom]) -> Cell:
    more = tuple(f"{atom.device_id} freed" for atom in freed)
    return replace(cell, free=(*cell.free, *more), busy_until=cell.busy_until[len(freed) :])
