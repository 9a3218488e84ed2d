"""Demands planned together (R13, case 7): nobody gets what somebody ahead could have had."""

import itertools
import random
from collections.abc import Iterable, Sequence
from itertools import combinations, product

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from bettercompute.wire.capacity import Filter
from bettercompute.wire.reservations import GangTopology
from pools.planner import batch, choices, timeline
from pools.planner import plan as planner
from pools.planner.batch import Asking, Batch
from pools.planner.plan import Plan
from pools.planner.request import Demand, Gang, Term
from pools.planner.snapshot import Node
from pools.planner.timeline import Amount, Span, TimedNode, Timeline
from tests.support import snapshots

pytestmark = pytest.mark.rule("R13")

HOUR = Span(0, 60)
DAY = Span(0, 1_440)


ORDERED = ["leader", "w1", "w2", "w3", "w4"]


def over(*nodes: Node | TimedNode) -> Timeline:
    """A pool of these nodes; those without a calendar have nothing booked."""
    timed = [node if isinstance(node, TimedNode) else TimedNode(node) for node in nodes]
    return timeline.of(timed, Span(0, 10_000))


def asking(key: str, count: int = 1, span: Span = HOUR, **changes: object) -> Asking:
    gang = changes.pop("gang", None)
    demand = snapshots.demand(snapshots.line(count), gang=gang, **changes)  # type: ignore[arg-type]
    return Asking(key, demand, span)


def plan(askings: Iterable[Asking], pool: Timeline, *, protect: int = 0, seed: int = 0) -> Batch:
    return batch.plan(askings, pool, rng=random.Random(seed), protect=protect)


def host(free: int, name: str, **changes: object) -> Node:
    return snapshots.node(snapshots.cell(free), name=name, **changes)


def taken(node: Node, count: int, *spans: Span) -> TimedNode:
    """A host of which so many atoms are booked for these spans."""
    return TimedNode(node, dict.fromkeys(node.cells[0].free[:count], spans))


@pytest.mark.case(7)
@pytest.mark.parametrize("order", [["x", "y"], ["y", "x"]])
def test_two_fit_though_the_first_ones_best_place_is_the_only_one_of_the_second(order):
    # 53 of 56 are free, so taking the whole host of 31 would break one that is free.
    pool = over(taken(host(56, "large"), 3, DAY), host(31, "small"))
    both = {"x": asking("x", 30), "y": asking("y", 50)}
    alone = plan([both["x"]], pool)
    assert alone.plans["x"].node_ids == ["id-large"], "else nothing has to be changed for y"

    together = plan([both[key] for key in order], pool)

    assert {key: found.node_ids for key, found in together.plans.items()} == {
        "x": ["id-small"],
        "y": ["id-large"],
    }


@pytest.mark.case(8)
@pytest.mark.parametrize("order", list(itertools.permutations(ORDERED, 2)))
def test_a_leader_and_four_workers_of_their_own_are_all_placed(order):
    everybody = {name: asking(name, 1 if name == "leader" else 2) for name in ORDERED}
    line = [everybody[name] for name in (*order, *(n for n in ORDERED if n not in order))]
    found = plan(line, over(host(2, "two"), host(4, "four"), host(3, "three")))
    assert set(found.plans) == set(ORDERED)


def test_whoever_comes_later_takes_no_place_from_whoever_is_ahead():
    pool = over(host(4, "a"))
    found = plan([asking("first", 3), asking("second", 4), asking("third", 1)], pool)
    assert sorted(found.plans) == ["first", "third"]
    (reason,) = found.waiting["second"]
    assert (reason.filter, reason.until_ms) == (Filter.BUSY, HOUR.end)


def test_a_window_that_only_touches_another_takes_nothing_from_it():
    pool = over(host(1, "a"))
    found = plan([asking("now", span=Span(0, 60)), asking("then", span=Span(60, 90))], pool)
    assert sorted(found.plans) == ["now", "then"]
    assert found.plans["now"].device_ids == found.plans["then"].device_ids


def test_a_short_window_takes_the_device_that_is_booked_again_soon():
    node = snapshots.node(snapshots.cell(2), name="a")
    soon = node.cells[0].free[0]
    pool = over(TimedNode(node, {soon: (Span(60, 1_440),)}))
    for seed in range(4):
        found = plan([asking("short", span=HOUR), asking("long", span=DAY)], pool, seed=seed)
        assert found.plans["short"].device_ids == [soon]
        assert sorted(found.plans) == ["long", "short"]


def test_a_hosts_resources_are_counted_at_the_peak_of_each_window():
    node = snapshots.node(snapshots.cell(4), name="a", resources={"vcpu": 10})
    pool = over(TimedNode(node, claimed=(Amount("vcpu", 6, Span(60, 120)), Amount("vcpu", 3, DAY))))
    needs = {"resources": {"vcpu": 2}}
    found = plan(
        [
            asking("before", span=Span(0, 60), **needs),
            asking("during", span=Span(30, 90), **needs),
            asking("behind", span=Span(120, 180), **needs),
        ],
        pool,
    )
    assert sorted(found.plans) == ["before", "behind"]
    assert {reason.filter for reason in found.waiting["during"]} == {Filter.RESOURCES}


def test_a_window_keeps_clear_of_maintenance_and_its_turn_comes_behind_it():
    node = host(1, "a")
    pool = over(TimedNode(node, worked_on=(Span(60, 120),)))
    line = [asking("before", span=Span(0, 60)), asking("over", span=Span(30, 90))]
    found = plan(line, pool, protect=1)
    assert sorted(found.plans) == ["before"]
    (reason,) = found.waiting["over"]
    assert (reason.filter, reason.until_ms) == (Filter.STATE, 120)
    assert found.turns["over"].span == Span(120, 180)


def test_nodes_on_which_it_failed_are_taken_only_where_no_others_do():
    pool = over(host(1, "a"), host(1, "b"))
    failed = Asking("again", snapshots.demand(snapshots.line(1)), HOUR, frozenset({"id-a"}))
    assert plan([failed], pool).plans["again"].node_ids == ["id-b"]
    both = plan([asking("first"), failed], over(host(1, "a"), taken(host(1, "b"), 1, DAY)))
    assert sorted(both.plans) == ["first"]
    assert plan([failed], over(host(1, "a"))).plans["again"].node_ids == ["id-a"]


# --- gangs (R16, cases 5 and 6) ------------------------------------------------------------------


@pytest.mark.rule("R16")
@pytest.mark.case(6)
def test_of_two_gangs_that_need_every_node_one_runs_and_the_other_takes_nothing():
    pool = over(*(host(8, f"n{i}") for i in range(100)))
    gangs = [asking("first", 8, gang=Gang(100)), asking("second", 8, gang=Gang(100))]
    found = plan(gangs, pool)
    assert len(found.plans["first"].parts) == 100
    assert sorted(found.plans) == ["first"]
    assert {reason.filter for reason in found.waiting["second"]} == {Filter.BUSY}


@pytest.mark.rule("R16")
def test_a_gang_moves_over_for_whoever_needs_one_of_its_nodes():
    # The gang by itself would leave whole hosts alone, and take the caged one.
    pool = over(host(5, "a"), host(5, "b"), taken(host(6, "c", labels={"cage": "9"}), 1, DAY))
    assert "id-c" in plan([asking("gang", 4, gang=Gang(2))], pool).plans["gang"].node_ids
    ahead = asking("gang", 4, gang=Gang(2))
    caged = Asking(
        "caged",
        snapshots.demand(snapshots.line(5, selector=(Term("cage", "=", ("9",)),))),
        HOUR,
    )
    for seed in range(3):
        found = plan([ahead, caged], pool, seed=seed)
        assert sorted(found.plans) == ["caged", "gang"]
        assert found.plans["gang"].node_ids == ["id-a", "id-b"]


@pytest.mark.rule("R16")
@pytest.mark.parametrize(
    ("topology", "label"),
    [
        (GangTopology.SAME_RACK, "topology.bc.dev/rack"),
        (GangTopology.SAME_SWITCH, "topology.bc.dev/switch"),
    ],
)
def test_two_gangs_share_places_so_that_each_is_in_one(topology, label):
    def at(place: str, name: str, free: int) -> Node:
        return host(free, name, labels={label: place})

    # The smaller gang would best go where only the larger one fits.
    pool = over(at("p", "p1", 8), at("p", "p2", 8), at("q", "q1", 4), at("q", "q2", 8))
    small = asking("small", 4, gang=Gang(2, topology))
    large = asking("large", 8, gang=Gang(2, topology))
    for order in ([small, large], [large, small]):
        found = plan(order, pool)
        assert found.plans["small"].node_ids == ["id-q1", "id-q2"]
        assert found.plans["large"].node_ids == ["id-p1", "id-p2"]


# --- those that wait keep their place (backfill) --------------------------------------------------


def test_whoever_waits_first_is_not_delayed_by_those_behind():
    pool = over(taken(host(4, "a"), 2, Span(0, 100)))
    line = [
        asking("whole", 4, span=Span(0, 50)),
        asking("long", 1, span=Span(0, 101)),
        asking("short", 1, span=Span(0, 100)),
    ]
    found = plan(line, pool, protect=1)
    assert found.turns["whole"].span == Span(100, 150)
    assert sorted(found.plans) == ["short"]
    (reason,) = found.waiting["long"]
    assert (reason.filter, reason.needs, reason.until_ms) == (Filter.BUSY, batch.KEPT, 150)


def test_whoever_waits_keeps_no_place_where_the_pool_says_so():
    pool = over(taken(host(4, "a"), 2, Span(0, 100)))
    found = plan([asking("whole", 4), asking("long", 1, span=DAY)], pool, protect=0)
    assert sorted(found.plans) == ["long"]
    assert not found.turns


def test_whoever_can_never_be_served_keeps_nothing_from_those_behind():
    pool = over(taken(host(4, "a"), 2, Span(0, 100)))
    line = [asking("huge", 5), asking("whole", 4), asking("long", 1, span=DAY)]
    found = plan(line, pool, protect=1)
    assert list(found.turns) == ["whole"]
    assert not found.plans


def test_so_many_keep_their_place_as_the_pool_says():
    pool = over(taken(host(1, "a"), 1, Span(0, 100)), taken(host(1, "b"), 1, Span(0, 200)))
    line = [asking("first", span=Span(0, 100)), asking("second", span=Span(0, 100))]
    found = plan(line, pool, protect=2)
    assert {key: turn.span.start for key, turn in found.turns.items()} == {
        "first": 100,
        "second": 200,
    }


@pytest.mark.rule("R16")
def test_a_gangs_turn_comes_when_the_last_of_its_nodes_is_free():
    pool = over(*(taken(host(8, f"n{i}"), 8, Span(0, 100 + i)) for i in range(5)))
    found = plan([asking("gang", 8, gang=Gang(3))], pool, protect=1)
    assert found.turns["gang"].span.start == 102


# --- whatever a pool may look like ----------------------------------------------------------------

counts = st.integers(1, 4)
demands = st.builds(
    lambda count, gang, vcpu: snapshots.demand(
        snapshots.line(count), gang=gang, resources={"vcpu": vcpu} if vcpu else {}
    ),
    counts,
    st.sampled_from([None, None, None, Gang(2)]),
    st.sampled_from([0, 0, 2]),
)
pools = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), min_size=1, max_size=4)


@settings(max_examples=200, deadline=None)
@given(st.lists(demands, min_size=1, max_size=4), pools, st.integers(0, 3))
def test_those_served_are_the_first_of_the_line_that_can_be_served_together(wanted, sizes, seed):
    hosts = [snapshots.node(snapshots.cell(free), resources={"vcpu": vcpu}) for free, vcpu in sizes]
    line = [Asking(str(i), demand, HOUR) for i, demand in enumerate(wanted)]
    found = plan(line, over(*hosts), seed=seed)
    expected = _first_together(wanted, sizes)
    event(f"{len(expected)} of {len(wanted)}")
    assert sorted(found.plans) == sorted(expected)


def _first_together(wanted: Sequence[Demand], sizes: Sequence[tuple[int, int]]) -> list[str]:
    """Trying every node for everybody: the brute force, which knows nothing of choices."""
    served: list[int] = []
    for number in range(len(wanted)):
        if _fit_together([wanted[i] for i in [*served, number]], list(sizes)):
            served.append(number)
    return [str(number) for number in served]


def _fit_together(wanted: Sequence[Demand], sizes: list[tuple[int, int]]) -> bool:
    ways = [
        list(combinations(range(len(sizes)), demand.gang.nodes if demand.gang else 1))
        for demand in wanted
    ]
    return any(_holds(wanted, way, sizes) for way in product(*ways))


def _holds(
    wanted: Sequence[Demand], way: Sequence[tuple[int, ...]], sizes: Sequence[tuple[int, int]]
) -> bool:
    left = [list(size) for size in sizes]
    for demand, nodes in zip(wanted, way, strict=True):
        for node in nodes:
            left[node][0] -= demand.lines[0][0].minimum
            left[node][1] -= demand.resources.get("vcpu", 0)
    return all(free >= 0 and vcpu >= 0 for free, vcpu in left)


spans = st.builds(lambda start, length: Span(start, start + length), st.integers(0, 3), counts)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.tuples(snapshots.demands, spans), min_size=1, max_size=4),
    st.lists(st.tuples(snapshots.nodes, st.lists(spans, max_size=2)), min_size=1, max_size=3),
    st.integers(0, 2),
)
def test_whatever_is_asked_plans_never_meet_and_nothing_booked_is_taken(asked, hosts, protect):
    pool = over(*(_booked(node, some) for node, some in hosts))
    line = [Asking(str(i), demand, span) for i, (demand, span) in enumerate(asked)]
    found = plan(line, pool, protect=protect)
    assert set(found.plans) | set(found.waiting) == {each.key for each in line}
    assert not set(found.plans) & set(found.waiting)
    by_key = {each.key: each for each in line}
    held = [(plan, by_key[key].span) for key, plan in found.plans.items()]
    held += [(turn.plan, turn.span) for turn in found.turns.values()]
    _check_apart(pool, held)
    for key, waiting in found.waiting.items():
        assert waiting, f"{key} waits without a reason"


def _booked(node: Node, some: Sequence[Span]) -> TimedNode:
    """The node with its first atoms booked, one a span."""
    atoms = [atom for cell in node.cells for atom in cell.free]
    booked = {atom: (span,) for atom, span in zip(atoms, some, strict=False)}
    claims = tuple(Amount("vcpu", 1, span) for span in some) if node.resources else ()
    return TimedNode(node, booked, claims)


def _check_apart(pool: Timeline, held: Sequence[tuple[Plan, Span]]) -> None:
    for node_id in pool.node_ids():
        node = pool.node(node_id)
        parts = [
            (part, span) for found, span in held for part in found.parts if part.node_id == node_id
        ]
        uses = [(atom, span) for part, span in parts for atom in part.device_ids]
        uses += [(atom, span) for atom, some in node.booked.items() for span in some]
        for (atom, span), (other, theirs) in combinations(uses, 2):
            assert atom != other or not span.meets(theirs)
        claims = [(part.resources.get("vcpu", 0), span) for part, span in parts]
        if any(amount for amount, _ in claims):
            claims += [(each.amount, each.span) for each in node.claimed]
            for instant in range(10):
                now = Span(instant, instant + 1)
                used = sum(amount for amount, span in claims if span.meets(now))
                assert used <= node.whole.resources["vcpu"]


@settings(max_examples=80, deadline=None)
@given(snapshots.demands, snapshots.snapshots)
def test_a_demands_first_choice_is_there_exactly_where_it_has_a_plan(demand, snapshot):
    best = planner.plan(demand, snapshot, rng=random.Random(1))
    ways = choices.of(demand, snapshot.nodes, rng=random.Random(1))
    first = next(ways, None)
    assert (first is not None) == isinstance(best, Plan)
