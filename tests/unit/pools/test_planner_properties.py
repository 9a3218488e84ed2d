"""The planner over whatever a pool may look like: what never happens, and what is always found."""

import random
from collections import Counter
from itertools import combinations, permutations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from bettercompute.wire.reservations import Topology
from pools.planner import plan as planner
from pools.planner import topology
from pools.planner.plan import NoFit, Plan
from pools.planner.request import Demand, Line
from pools.planner.snapshot import Cell, Node, Snapshot
from tests.support import snapshots

pytestmark = pytest.mark.rule("R15")

Atom = tuple[str, Cell]


def plan(demand: Demand, snapshot: Snapshot, seed: int = 0) -> Plan | NoFit:
    return planner.plan(demand, snapshot, rng=random.Random(seed))


@settings(max_examples=300, deadline=None)
@given(snapshots.demands, snapshots.snapshots, st.integers(0, 3))
def test_safety_a_plan_takes_only_free_atoms_of_eligible_nodes_each_once(demand, snapshot, seed):
    found = plan(demand, snapshot, seed)
    event(type(found).__name__)
    if isinstance(found, NoFit):
        return
    by_id = {node.id: node for node in snapshot.nodes}
    taken = Counter(found.device_ids)
    assert max(taken.values()) == 1
    assert len({part.node_id for part in found.parts}) == len(found.parts)
    for part in found.parts:
        node = by_id[part.node_id]
        free = {atom for cell in node.cells for atom in cell.free}
        assert set(part.device_ids) <= free
        assert not node.cordoned
        assert part.device_ids
        for name, amount in part.resources.items():
            assert amount <= node.resources[name]


@settings(max_examples=300, deadline=None)
@given(snapshots.demands, snapshots.snapshots)
def test_safety_a_plan_gives_every_line_what_it_asks_for(demand, snapshot):
    found = plan(demand, snapshot)
    if isinstance(found, NoFit):
        return
    if demand.gang is not None:
        assert len(found.parts) == demand.gang.nodes
    atoms = {
        atom: (node.id, cell)
        for node in snapshot.nodes
        for cell in node.cells
        for atom in cell.free
    }
    members = [[p] for p in found.parts] if not demand.may_spread else [list(found.parts)]
    for member in members:
        taken = [atoms[device] for part in member for device in part.device_ids]
        assert _served(list(found.lines), taken), "these atoms do not serve these lines"


@settings(max_examples=400, deadline=None)
@given(snapshots.demands, snapshots.snapshots)
def test_liveness_the_planner_finds_a_plan_exactly_where_trying_everything_does(demand, snapshot):
    found = plan(demand, snapshot)
    possible = _possible(demand, snapshot)
    event(f"possible {possible}")
    assert isinstance(found, Plan) == possible


@settings(max_examples=150, deadline=None)
@given(snapshots.demands, snapshots.snapshots)
def test_a_refusal_accounts_for_every_node(demand, snapshot):
    found = plan(demand, snapshot)
    if isinstance(found, Plan) or demand.may_spread:
        return
    assert sum(reason.nodes for reason in found.reasons) == len(snapshot.nodes)
    for reason in found.reasons:
        assert reason.needs
        assert 1 <= len(reason.samples) <= min(3, reason.nodes)


@settings(max_examples=100, deadline=None)
@given(snapshots.demands, snapshots.snapshots)
def test_nothing_is_taken_of_excluded_nodes(demand, snapshot):
    excluded = frozenset(node.id for node in snapshot.nodes[::2])
    found = planner.plan(demand, snapshot, exclude_nodes=excluded, rng=random.Random(1))
    rest = Snapshot(tuple(node for node in snapshot.nodes if node.id not in excluded))
    assert isinstance(found, Plan) == isinstance(plan(demand, rest), Plan)
    if isinstance(found, Plan):
        assert not excluded & set(found.node_ids)


# --- the brute force: it knows nothing of cells, flows or shapes ---------------------------------


def _possible(demand: Demand, snapshot: Snapshot) -> bool:
    lines = [options[0] for options in demand.lines]
    open_nodes = [node for node in snapshot.nodes if not node.cordoned]
    if demand.gang is None and demand.may_spread:
        return _can_spread(demand, lines, open_nodes)
    serving = [node for node in open_nodes if _node_serves(demand, lines, node)]
    return len(serving) >= (1 if demand.gang is None else demand.gang.nodes)


def _node_serves(demand: Demand, lines: list[Line], node: Node) -> bool:
    worth = sum(line.minimum for line in lines)
    if not _host_gives(demand, node, worth):
        return False
    atoms = [(node.id, cell) for cell in node.cells for _ in cell.free]
    return _served_by_some(lines, atoms)


def _host_gives(demand: Demand, node: Node, worth: int) -> bool:
    full = sum(line.maximum for options in demand.lines for line in options[:1])
    return not node.resources or all(
        total * worth // full <= node.resources.get(name, 0)
        for name, total in demand.resources.items()
    )


def _can_spread(demand: Demand, lines: list[Line], nodes: list[Node]) -> bool:
    """Every choice of how many atoms each node gives, then whether the lines share them out."""
    usable: list[list[Atom]] = []
    for node in nodes:
        atoms = [(node.id, cell) for cell in node.cells for _ in cell.free]
        wanted = [atom for atom in atoms if any(topology.matches(line, atom[1]) for line in lines)]
        most = max(n for n in range(len(wanted) + 1) if _host_gives(demand, node, n))
        usable.append(wanted[:most] if most < len(wanted) else wanted)
    # Which of a node's atoms are given matters only where they differ in the model.
    if all(len({cell.model for _, cell in atoms}) <= 1 for atoms in usable) or not any(
        node.resources for node in nodes
    ):
        return _served_by_some(lines, [atom for atoms in usable for atom in atoms])
    return _served_by_some_choice(demand, lines, nodes)


def _served_by_some_choice(demand: Demand, lines: list[Line], nodes: list[Node]) -> bool:
    choices: list[list[Atom]] = [[]]
    for node in nodes:
        atoms = [(node.id, cell) for cell in node.cells for _ in cell.free]
        most = max(n for n in range(len(atoms) + 1) if _host_gives(demand, node, n))
        picks = {
            tuple(sorted(Counter(cell.model for _, cell in pick).items())): list(pick)
            for pick in combinations(atoms, min(most, len(atoms)))
        }
        choices = [chosen + pick for chosen in choices for pick in picks.values()]
    return any(_served_by_some(lines, chosen) for chosen in choices)


def _served_by_some(lines: list[Line], atoms: list[Atom]) -> bool:
    """Whether the minimums of all lines can be met from these atoms, trying each order."""
    return any(_serve_in_order(list(order), atoms) for order in set(permutations(lines)))


def _serve_in_order(lines: list[Line], atoms: list[Atom]) -> bool:
    if not lines:
        return True
    line, rest = lines[0], lines[1:]
    matching = [i for i, (_, cell) in enumerate(atoms) if topology.matches(line, cell)]
    seen = set()
    for chosen in combinations(matching, line.minimum):
        kinds = tuple(
            sorted(
                str((atoms[i][1].model, atoms[i][1].numa_node, atoms[i][1].nvlink_group))
                for i in chosen
            )
        )
        if kinds in seen or not _near(line, [atoms[i][1] for i in chosen]):
            continue
        seen.add(kinds)
        left = [atom for i, atom in enumerate(atoms) if i not in chosen]
        if _serve_in_order(rest, left):
            return True
    return False


def _near(line: Line, cells: list[Cell]) -> bool:
    if len(cells) == 1 or line.topology in {Topology.ANY, Topology.SAME_NODE}:
        return True
    if line.topology is Topology.SAME_NUMA:
        where = {cell.numa_node for cell in cells}
    else:
        where = {cell.nvlink_group for cell in cells}
    return len(where) == 1 and where != {None}


def _served(lines: list[Line], taken: list[Atom]) -> bool:
    """Whether exactly these atoms serve the lines, each within its range."""
    total = len(taken)
    least = sum(line.minimum for line in lines)
    most = sum(line.maximum for line in lines)
    return least <= total <= most and _served_by_some(lines, taken)
