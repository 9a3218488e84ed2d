"""The planner over whatever a pool may look like: what never happens, and what is always found."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from bettercompute.wire.reasons import Filter, never
from bettercompute.wire.reservations import Topology
from pools.planner import plan as planner
from pools.planner.plan import NoFit, Plan
from pools.planner.reasons import answered
from pools.planner.request import Demand, Term
from pools.planner.snapshot import Snapshot
from tests.support import brute_force, snapshots

pytestmark = pytest.mark.rule("R15")


def plan(demand: Demand, snapshot: Snapshot, seed: int = 0) -> Plan | NoFit:
    return planner.plan(demand, snapshot, rng=random.Random(seed))


@settings(max_examples=150, deadline=None)
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
        assert part.device_ids
        assert brute_force.eligible(demand, found.lines, node)
        for name, amount in part.resources.items():
            assert amount <= node.resources[name]


@settings(max_examples=150, deadline=None)
@given(snapshots.demands, snapshots.snapshots)
def test_safety_a_plan_gives_every_line_what_it_asks_for(demand, snapshot):
    found = plan(demand, snapshot)
    if isinstance(found, NoFit):
        return
    if demand.gang is not None:
        assert len(found.parts) == demand.gang.nodes
    free = {atom.id: atom for atom in brute_force.atoms_of(snapshot.nodes)}
    together = [list(found.parts)] if demand.may_spread else [[part] for part in found.parts]
    for parts in together:
        taken = [free[device] for part in parts for device in part.device_ids]
        assert brute_force.serves(demand, found.lines, taken), (
            "these atoms do not serve these lines"
        )


@settings(max_examples=300, deadline=None)
@given(snapshots.demands, snapshots.snapshots)
def test_liveness_the_planner_finds_a_plan_exactly_where_trying_everything_does(demand, snapshot):
    found = plan(demand, snapshot)
    possible = brute_force.fits(demand, snapshot)
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
        assert len(reason.samples) <= min(3, reason.nodes)
        assert reason.samples or reason.filter is Filter.GANG  # of the pool, not of nodes


def emptied(snapshot: Snapshot) -> Snapshot:
    """The same pool with nothing booked, and everything well, open and in service."""
    return Snapshot(
        tuple(
            replace(
                node,
                state="ready",
                cordoned=False,
                taints=(),
                worked_on_until=None,
                resources=node.capacity,
                cells=tuple(
                    replace(
                        cell,
                        free=tuple(f"{node.id}-{at}-{n}" for n in range(cell.total)),
                        busy_until=(),
                        unhealthy=0,
                    )
                    for at, cell in enumerate(node.cells)
                ),
            )
            for node in snapshot.nodes
        )
    )


def measured(snapshot: Snapshot, beside: int) -> Snapshot:
    """With hosts of so much more than is free of them."""
    return Snapshot(
        tuple(
            replace(
                node,
                capacity={name: max(n, 0) + beside for name, n in node.resources.items()},
            )
            for node in snapshot.nodes
        )
    )


@pytest.mark.rule("R20")
@settings(max_examples=150, deadline=None)
@given(snapshots.demands, snapshots.snapshots, st.sampled_from([0, 8, 100]))
def test_what_is_said_to_never_fit_does_not_when_all_is_free(demand, snapshot, beside):
    pool = measured(snapshot, beside)
    found = plan(demand, pool)
    said = isinstance(found, NoFit) and never([*map(answered, found.reasons)])
    event(f"said {said}")
    if said:
        assert isinstance(plan(demand, emptied(pool)), NoFit)


@pytest.mark.rule("R20")
@settings(max_examples=75, deadline=None)
@given(snapshots.demands, snapshots.snapshots)
def test_what_no_class_model_or_host_has_is_said_to_never_fit(demand, snapshot):
    """Where everything is free and labelled, only hardware can be in the way; but for topology."""
    found = plan(demand, emptied(measured(snapshot, 0)))
    if isinstance(found, Plan) or demand.combinations > 1:
        return
    filters = {reason.filter for reason in found.reasons}
    if filters and filters <= {Filter.CLASS, Filter.MODEL, Filter.CAPABILITY}:
        assert never([*map(answered, found.reasons)])


@settings(max_examples=100, deadline=None)
@given(snapshots.demands, snapshots.snapshots)
def test_nothing_is_taken_of_excluded_nodes(demand, snapshot):
    excluded = frozenset(node.id for node in snapshot.nodes[::2])
    found = planner.plan(demand, snapshot, exclude_nodes=excluded, rng=random.Random(1))
    rest = Snapshot(tuple(node for node in snapshot.nodes if node.id not in excluded))
    assert isinstance(found, Plan) == isinstance(plan(demand, rest), Plan)
    if isinstance(found, Plan):
        assert not excluded & set(found.node_ids)


MODEL_LINES = st.builds(
    lambda least, more, model: snapshots.line(
        least,
        most=least + more,
        topology=Topology.ANY,
        selector=() if model is None else (Term("model", "=", (model,)),),
    ),
    st.integers(1, 2),
    st.sampled_from([0, 0, 1]),
    st.sampled_from([None, *snapshots.MODELS]),
)
BOUND_NODES = st.builds(
    lambda h100, a100, vcpu: snapshots.node(
        snapshots.cell(h100), snapshots.cell(a100, model="A100"), resources={"vcpu": vcpu}
    ),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 4),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(MODEL_LINES, min_size=1, max_size=3), st.lists(BOUND_NODES, max_size=3))
def test_liveness_what_a_host_gives_of_one_model_it_cannot_give_of_another(lines, nodes):
    full = sum(line.maximum for line in lines)
    wanted = snapshots.demand(*lines, resources={"vcpu": full})  # one CPU a card
    pool = Snapshot(tuple(nodes))
    found = plan(wanted, pool)
    possible = brute_force.fits(wanted, pool)
    event(f"possible {possible}")
    assert isinstance(found, Plan) == possible
    if isinstance(found, Plan):
        free = {atom.id: atom for atom in brute_force.atoms_of(pool.nodes)}
        taken = [free[device] for device in found.device_ids]
        assert brute_force.serves(wanted, found.lines, taken)
