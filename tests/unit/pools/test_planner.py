"""The planner, case by case: where a request goes, and what is said when it goes nowhere."""

import random
import time

import pytest

from bettercompute.wire.capacity import Filter
from bettercompute.wire.reasons import never
from bettercompute.wire.reservations import DeviceClass, GangTopology, Topology
from pools.planner import plan as planner
from pools.planner.plan import NoFit, Plan
from pools.planner.reasons import Reason, answered
from pools.planner.request import Demand, Gang, Line, Term, Toleration
from pools.planner.snapshot import Node, Snapshot, Taint
from tests.support.snapshots import cell, demand, gpus, line, node

FOUR_LINKED = line(4, topology=Topology.NVLINK_ALL)


def plan(wanted: Demand, snapshot: Snapshot, seed: int = 0) -> Plan | NoFit:
    return planner.plan(wanted, snapshot, rng=random.Random(seed))


def placed(wanted: Demand, *nodes: Node) -> Plan:
    found = plan(wanted, Snapshot(nodes))
    assert isinstance(found, Plan), found
    return found


def names(found: Plan | NoFit) -> list[str]:
    assert isinstance(found, Plan), found
    return sorted(part.node_name for part in found.parts)


def refused(wanted: Demand, *nodes: Node) -> tuple[Reason, ...]:
    found = plan(wanted, Snapshot(nodes))
    assert isinstance(found, NoFit), found
    return found.reasons


# --- packing -------------------------------------------------------------------------------------


@pytest.mark.rule("R15")
def test_a_node_in_use_is_filled_before_a_whole_one_is_broken():
    whole = node(cell(8), name="whole")
    used = node(cell(5, busy=[1, 1, 1]), name="used")
    assert names(placed(demand(line(4)), whole, used)) == ["used"]


@pytest.mark.rule("R15")
def test_the_least_is_left_over():
    assert names(plan(demand(line(3)), gpus(6, 3, 5))) == ["n1"]


@pytest.mark.rule("R15")
def test_a_whole_nvlink_group_is_left_for_those_who_need_it():
    mixed = node(
        cell(2, busy=[1, 1], nvlink_group=0),
        cell(4, nvlink_group=1),
    )
    found = placed(demand(line(2)), mixed)
    assert set(found.device_ids) == set(mixed.cells[0].free)


@pytest.mark.rule("R15")
def test_nobody_gets_a_large_card_where_a_small_one_does():
    large = node(cell(1, memory_mib=143_771, model="H200"), name="large")
    small = node(cell(8, memory_mib=15_109, model="T4"), name="small")
    assert names(placed(demand(line(1)), large, small)) == ["small"]


@pytest.mark.rule("R15", "C36")
def test_a_silent_node_is_the_last_choice_but_a_choice():
    silent = node(cell(1), name="silent", connected=False)
    heard = node(cell(8), name="heard")
    assert names(placed(demand(line(1)), silent, heard)) == ["heard"]
    assert names(placed(demand(line(1)), silent)) == ["silent"]


@pytest.mark.rule("C18")
def test_equal_candidates_are_taken_at_random():
    pool = gpus(8, 8, 8, 8)
    nodes = {names(plan(demand(line(1)), pool, seed))[0] for seed in range(60)}
    devices = {plan(demand(line(1)), gpus(8), seed).device_ids[0][-1] for seed in range(60)}
    assert nodes == {"n0", "n1", "n2", "n3"}
    assert len(devices) > 3


def test_the_same_random_numbers_give_the_same_plan():
    pool = gpus(8, 8, 8)
    assert plan(demand(line(2)), pool, 7) == plan(demand(line(2)), pool, 7)


# --- topology ------------------------------------------------------------------------------------


@pytest.mark.rule("R3")
def test_nvlink_all_takes_one_group_and_never_two_halves():
    halves = node(cell(3, nvlink_group=0), cell(3, nvlink_group=1), name="halves")
    group = node(cell(3, nvlink_group=0), cell(4, nvlink_group=1), name="group")
    found = placed(demand(FOUR_LINKED), halves, group)
    assert set(found.device_ids) == set(group.cells[1].free)


@pytest.mark.rule("R3")
def test_an_nvlink_group_may_span_numa_nodes_and_same_numa_may_not():
    one = node(cell(2, numa_node=0, nvlink_group=0), cell(2, numa_node=1, nvlink_group=0))
    assert len(placed(demand(FOUR_LINKED), one).device_ids) == 4
    (reason,) = refused(demand(line(4, topology=Topology.SAME_NUMA)), one)
    assert reason.filter is Filter.TOPOLOGY


@pytest.mark.rule("R3")
def test_without_links_one_gpu_is_all_linked_and_two_are_not():
    alone = node(cell(4))
    assert placed(demand(line(1, topology=Topology.NVLINK_ALL)), alone)
    (reason,) = refused(demand(line(2, topology=Topology.NVLINK_ALL)), alone)
    assert (reason.filter, reason.needs) == (Filter.TOPOLOGY, "2 GPUs with nvlink-all")


@pytest.mark.rule("R3")
def test_devices_come_from_one_node_unless_every_line_says_any():
    spread = line(6, topology=Topology.ANY)
    assert isinstance(plan(demand(line(6)), gpus(4, 4)), NoFit)
    assert names(plan(demand(spread), gpus(4, 4))) == ["n0", "n1"]
    assert names(plan(demand(spread), gpus(4, 4, 6))) == ["n2"]  # one node, if one has them
    assert isinstance(plan(demand(spread, line(1)), gpus(4, 4)), NoFit)


@pytest.mark.rule("R3")
def test_a_range_takes_as_many_as_fit():
    found = plan(demand(line(1, most=8)), gpus(3, 5))
    assert names(found) == ["n1"]
    assert len(found.device_ids) == 5
    assert len(plan(demand(line(1, most=4)), gpus(3, 5)).device_ids) == 4
    assert len(plan(demand(line(1, most=9, topology=Topology.ANY)), gpus(3, 5)).device_ids) == 8


@pytest.mark.rule("R3")
def test_alternatives_are_taken_in_their_order_and_not_by_how_well_they_pack():
    small = line(1, device_class=DeviceClass.MIG, profile="1g.10gb")
    mixed = node(
        cell(8), cell(1, device_class=DeviceClass.MIG, profile="1g.10gb", memory_mib=10_000)
    )
    for options in ((line(1), small), (small, line(1))):
        assert plan(Demand(lines=(options,)), Snapshot((mixed,))).lines == (options[0],)
    whole_only = Snapshot((node(cell(8)),))
    assert plan(Demand(lines=((small, line(1)),)), whole_only).lines == (line(1),)


# --- selectors, labels, taints -------------------------------------------------------------------


@pytest.mark.rule("R3")
@pytest.mark.parametrize(
    ("term", "fits"),
    [
        (Term("model", "=", ("h100",)), True),
        (Term("model", "in", ("A100", "H100")), True),
        (Term("model", "!=", ("H100",)), False),
        (Term("memoryGiB", "=", (80,)), True),
        (Term("memoryGiB", ">=", (80,)), True),
        (Term("memoryGiB", ">=", (81,)), False),
        (Term("driver", ">=", ("535.9",)), True),
        (Term("driver", ">=", ("550.54.16",)), False),
        (Term("driver", "exists"), True),
        (Term("zone", "=", ("a",)), True),
        (Term("zone", "=", ("A",)), False),
        (Term("zone", "!=", ("b",)), True),
        (Term("zone", "exists"), True),
        (Term("rack", "exists"), False),
        (Term("rack", "!=", ("r1",)), True),
        (Term("generation", ">=", ("9",)), True),
        (Term("zone", ">=", ("1",)), False),
        (Term("bc.dev/gpu.family", "=", ("hopper",)), False),  # an operator wrote it, not we
    ],
)
def test_a_selector_matches_the_device_or_a_label_of_its_node(term, fits):
    one = node(
        cell(1, driver="550.54.15"),
        labels={"zone": "a", "generation": "10", "bc.dev/gpu.family": "hopper"},
    )
    assert isinstance(plan(demand(line(1, selector=(term,))), Snapshot((one,))), Plan) is fits


def test_a_taint_keeps_work_off_unless_it_is_tolerated():
    tainted = node(cell(1), taints=(Taint("team", "vision"),))
    (reason,) = refused(demand(line()), tainted)
    assert (reason.filter, reason.needs) == (Filter.TAINT, "toleration of team=vision:NoSchedule")
    for toleration in (Toleration("team"), Toleration("team", "vision")):
        assert placed(demand(line(), tolerations=(toleration,)), tainted)
    assert refused(demand(line(), tolerations=(Toleration("team", "audio"),)), tainted)


def test_a_soft_taint_only_makes_a_node_a_late_choice():
    soft = node(cell(1), name="soft", taints=(Taint("old", "", "PreferNoSchedule"),))
    plain = node(cell(8), name="plain")
    assert names(placed(demand(line()), soft, plain)) == ["plain"]
    assert names(placed(demand(line()), soft)) == ["soft"]
    tolerating = demand(line(), tolerations=(Toleration("old"),))
    assert names(placed(tolerating, soft, plain)) == ["soft"]


# --- host resources ------------------------------------------------------------------------------


@pytest.mark.rule("R30")
def test_a_node_that_cannot_give_the_host_resources_is_no_fit():
    short = node(cell(8), name="short", resources={"vcpu": 15})
    wide = node(cell(8), name="wide", resources={"vcpu": 16})
    wanted = demand(line(2), resources={"vcpu": 16})
    assert placed(wanted, short, wide).parts[0].resources == {"vcpu": 16}
    (reason,) = refused(wanted, short)
    assert (reason.filter, reason.needs) == (Filter.RESOURCES, "16 CPUs")


@pytest.mark.rule("R30", "R20")
def test_a_host_that_is_too_small_is_told_from_one_that_is_taken():
    taken = node(cell(8), resources={"vcpu": 4}, capacity={"vcpu": 16})
    small = node(cell(8), resources={"vcpu": 4}, capacity={"vcpu": 15})
    wanted = demand(line(2), resources={"vcpu": 16})
    found = [(reason.filter, reason.needs) for reason in refused(wanted, taken, small)]
    assert found == [(Filter.RESOURCES, "16 CPUs"), (Filter.CAPABILITY, "a host with 16 CPUs")]


@pytest.mark.rule("R30")
def test_what_is_booked_is_in_proportion_to_the_devices_and_rounded_down():
    hosts = [node(cell(n), resources={"vcpu": 100}) for n in (1, 2)]
    wanted = demand(line(3, topology=Topology.ANY), resources={"vcpu": 16})
    booked = {len(p.device_ids): p.resources["vcpu"] for p in placed(wanted, *hosts).parts}
    assert booked == {1: 5, 2: 10}


@pytest.mark.rule("R30")
def test_a_host_that_counts_no_resources_books_none_unless_a_person_asked_for_them():
    uncounted = node(cell(1))
    assert placed(demand(line(), resources={"vcpu": 8}), uncounted).parts[0].resources == {}
    asked = demand(line(), resources={"vcpu": 8}, resources_asked=True)
    (reason,) = refused(asked, uncounted)
    assert reason.filter is Filter.RESOURCES


@pytest.mark.rule("R30", "R20")
def test_resources_are_booked_only_where_the_node_enforces_them():
    old = node(
        cell(1),
        resources={"vcpu": 64},
        system_labels={},
        labels={"bc.dev/cap.devices.limits": "true"},
    )
    (reason,) = refused(demand(line(), resources={"vcpu": 8}), old)
    assert (reason.filter, reason.needs, reason.nodes) == (
        Filter.LABELS,
        "label bc.dev/cap.devices.limits",
        1,
    )
    assert placed(demand(line()), old)  # a plain hold books none and needs no capability


@pytest.mark.case(10)
def test_shares_of_a_gpu_add_up_without_losing_the_last_one():
    # Nine of 1/9: the ninth fits exactly, a tenth does not.
    slots = node(cell(9, device_class=DeviceClass.SLOT), resources={"vcpu": 9})
    nine = demand(line(9, device_class=DeviceClass.SLOT), resources={"vcpu": 9}, replicas=9)
    assert placed(nine, slots).parts[0].resources == {"vcpu": 9}
    one = demand(line(1, device_class=DeviceClass.SLOT), resources={"vcpu": 1}, replicas=9)
    assert placed(one, slots).parts[0].resources == {"vcpu": 1}


@pytest.mark.rule("R3", "R30")
def test_a_host_short_of_cpus_gives_of_each_model_what_others_lack():
    def of(model: str, count: int) -> Line:
        named = (Term("model", "=", (model,)),)
        return line(count, topology=Topology.ANY, selector=named)

    # CPUs for two cards: one must be the H100 and one an A100, and not the first two.
    short = node(cell(2, model="H100"), cell(2, model="A100"), name="s", resources={"vcpu": 2})
    other = node(cell(1, model="A100"), name="o", resources={"vcpu": 9})
    wanted = demand(of("H100", 1), of("A100", 2), resources={"vcpu": 3})
    found = placed(wanted, short, other)
    assert {part.node_name: len(part.device_ids) for part in found.parts} == {"s": 2, "o": 1}


# --- what a pool can never serve ----------------------------------------------------------------


H100 = (Term("model", "=", ("H100",)),)
B200 = (Term("model", "=", ("B200",)),)
HOSTS = (
    node(cell(0, busy=[9] * 8), name="full", capacity={"vcpu": 64}, resources={"vcpu": 0}),
    node(cell(4), name="half", capacity={"vcpu": 32}, resources={"vcpu": 32}),
)


@pytest.mark.rule("R20", "R24")
@pytest.mark.parametrize(
    ("wanted", "most"),
    [
        (demand(line(16)), "8 GPUs on a node"),
        (demand(line(2, selector=B200)), "8 × H100 on a node"),
        (demand(line(2), resources={"vcpu": 65}, resources_asked=True), "64 CPUs on a node"),
        (demand(line(8), gang=Gang(2)), "1 of them in the pool"),
        (demand(line(13, topology=Topology.ANY)), "12 GPUs in the pool"),
    ],
)
def test_what_no_state_of_the_pool_could_serve_is_told_the_most_there_is(wanted, most):
    found = [answered(reason) for reason in refused(wanted, *HOSTS)]
    assert never(found)
    assert most in {reason.most for reason in found}


@pytest.mark.rule("R20", "R24")
@pytest.mark.parametrize(
    "wanted",
    [
        demand(line(8)),
        demand(line(2), resources={"vcpu": 64}, resources_asked=True),
        demand(line(4), gang=Gang(2)),
        demand(line(12, topology=Topology.ANY)),
        Demand(lines=((line(16), line(8)),)),  # the other alternative will do
    ],
)
def test_of_what_fits_once_others_end_it_is_not_said_that_it_never_does(wanted):
    assert not never([answered(reason) for reason in refused(wanted, *HOSTS)])


@pytest.mark.rule("R20", "R24")
def test_nor_is_what_another_driver_could_serve():
    wanted = (*H100, Term("driver", ">=", (580,)))
    (reason,) = refused(demand(line(2, selector=wanted)), *HOSTS)
    assert (reason.filter, reason.most) == (Filter.MODEL, None)
    assert reason.needs == "model H100, driver 580 or later"
    found = refused(demand(line(16, selector=wanted)), *HOSTS)
    assert never([*map(answered, found)])


@pytest.mark.rule("R20", "R24")
@pytest.mark.parametrize(
    "wanted",
    [demand(line(16)), demand(line(8), gang=Gang(2)), demand(line(13, topology=Topology.ANY))],
)
def test_nor_is_what_a_node_may_have_that_has_not_joined_yet(wanted):
    registered = node(name="new", system_labels={})
    found = [answered(reason) for reason in refused(wanted, *HOSTS, registered)]
    assert not never(found)
    (unknown,) = (reason for reason in found if reason.samples == ["new"])
    assert (unknown.filter, unknown.needs) == (Filter.STATE, "a node that has joined")


@pytest.mark.rule("R20", "R24")
def test_nor_is_what_the_search_was_given_up_for():
    """Of the first node too many ways are tried: what was not looked for may be there."""
    mig = {"device_class": DeviceClass.MIG, "profile": "1g.10gb"}
    lines = [
        line(4, topology=Topology.SAME_NUMA, selector=(Term("memoryGiB", ">=", (at,)),), **mig)
        for at in range(1, 10)
    ]
    hard = node(*(cell(7, numa_node=at, **mig) for at in range(8)), name="hard")
    taken = node(*(cell(0, busy=[5] * 7, numa_node=at, **mig) for at in range(10)), name="taken")
    emptied = node(*(cell(7, numa_node=at, **mig) for at in range(10)), name="taken")
    found = [answered(reason) for reason in refused(demand(*lines), hard, taken)]
    assert not never(found)
    assert {(reason.filter, reason.most) for reason in found} == {(Filter.TOPOLOGY, None)}
    assert isinstance(plan(demand(*lines), Snapshot((emptied,))), Plan)


# --- gangs ---------------------------------------------------------------------------------------


def racked(name: str, rack: str | None, free: int = 8) -> Node:
    labels = {} if rack is None else {"topology.bc.dev/rack": rack}
    return node(cell(free), name=name, labels=labels)


@pytest.mark.rule("R16")
@pytest.mark.case(5)
def test_a_gang_is_whole_or_nothing():
    wanted = demand(line(8), gang=Gang(3))
    assert names(plan(wanted, gpus(8, 8, 8))) == ["n0", "n1", "n2"]
    (gang, short) = refused(wanted, *gpus(8, 8, 7).nodes)
    assert (short.filter, short.nodes) == (Filter.CLASS, 1)
    assert (gang.filter, gang.needs) == (Filter.GANG, "3 nodes at once")
    assert gang.most == "2 of them in the pool"
    taken = node(cell(7, busy=(5,)), name="taken")
    (gang, busy) = refused(wanted, *gpus(8, 8).nodes, taken)
    assert (gang.needs, gang.most) == ("3 nodes at once; 2 fit alone", None)
    assert busy.filter is Filter.BUSY


@pytest.mark.rule("R16")
def test_a_gang_of_one_rack_takes_the_tightest_rack_that_has_enough():
    wanted = demand(line(8), gang=Gang(2, GangTopology.SAME_RACK))
    nodes = [racked("a1", "a"), racked("b1", "b"), racked("b2", "b"), racked("b3", "b")]
    assert set(names(placed(wanted, *nodes))) <= {"b1", "b2", "b3"}
    nodes += [racked("c1", "c"), racked("c2", "c")]
    assert names(placed(wanted, *nodes)) == ["c1", "c2"]


@pytest.mark.rule("R16")
def test_a_node_that_does_not_say_its_rack_is_in_nobodys():
    wanted = demand(line(8), gang=Gang(2, GangTopology.SAME_RACK))
    (reason,) = refused(wanted, racked("x", None), racked("y", None), racked("z", "a"))
    assert (reason.filter, reason.needs) == (Filter.GANG, "2 nodes same-rack at once; 3 fit alone")


@pytest.mark.case(8)
def test_lines_that_share_a_node_are_not_starved_by_a_greedy_choice():
    # Any model for the first line, H100 for the second: the first must leave the H100s alone.
    mixed = node(cell(2, model="H100"), cell(2, model="A100"))
    wanted = demand(line(2), line(2, selector=(Term("model", "=", ("H100",)),)))
    assert len(placed(wanted, mixed).device_ids) == 4
    spread = demand(
        line(2, topology=Topology.ANY),
        line(2, topology=Topology.ANY, selector=(Term("model", "=", ("H100",)),)),
    )
    apart = (node(cell(2, model="H100")), node(cell(2, model="A100")))
    assert len(placed(spread, *apart).device_ids) == 4


@pytest.mark.case(8)
@pytest.mark.parametrize("seed", range(8))
def test_a_leader_and_four_workers_fit_though_the_leader_could_be_in_the_way(seed):
    # Hosts with 2, 4 and 3 free: wherever the leader goes but to the third, a worker has no place.
    worker, leader = line(2, topology=Topology.ANY), line(1, topology=Topology.ANY)
    found = plan(demand(leader, worker, worker, worker, worker), gpus(2, 4, 3), seed)
    assert isinstance(found, Plan)
    assert sorted(len(part.device_ids) for part in found.parts) == [2, 3, 4]


@pytest.mark.case(10)
def test_nine_ninths_and_eighty_times_the_same_share_fit_exactly():
    ninths = node(cell(9, device_class=DeviceClass.SLOT), resources={"vcpu": 1})
    for count, fits in ((9, True), (10, False)):
        wanted = demand(line(count, device_class=DeviceClass.SLOT), replicas=9)
        assert isinstance(plan(wanted, Snapshot((ninths,))), Plan) is fits
    # 180 thousandths of a card each: CPUs for 80, though there are slots for 82.
    cards = [
        node(cell(41, device_class=DeviceClass.SLOT), name=f"n{i}", resources={"vcpu": 1_440})
        for i in range(2)
    ]
    each = 180
    for count, fits in ((80, True), (81, False)):
        wanted = demand(
            line(count, device_class=DeviceClass.SLOT, topology=Topology.ANY),
            resources={"vcpu": each * count // 5},
            replicas=5,
        )
        assert isinstance(plan(wanted, Snapshot(tuple(cards))), Plan) is fits


# --- reasons -------------------------------------------------------------------------------------


@pytest.mark.rule("R20")
def test_each_node_is_counted_under_the_first_filter_it_fails():
    wanted = demand(line(2, selector=(Term("model", "=", ("H100",)), Term("zone", "=", ("a",)))))
    zone = {"labels": {"zone": "a"}}
    reasons = refused(
        wanted,
        node(cell(1), name="few", **zone),
        node(cell(2, model="A100"), name="other", **zone),
        node(cell(2), name="elsewhere"),
        node(cell(2), name="cordoned", cordoned=True, **zone),
        node(cell(2), name="gone", state="unreachable", **zone),
        node(cell(1, unhealthy=1), name="broken", **zone),
        node(cell(1, busy=[500]), name="busy", **zone),
        node(cell(0, busy=[900, 700]), name="busier", **zone),
    )
    found = {(r.filter, r.needs): (r.nodes, r.samples, r.until_ms) for r in reasons}
    assert found == {
        (Filter.CLASS, "2 GPUs"): (1, ("few",), None),
        (Filter.MODEL, "model H100"): (1, ("other",), None),
        (Filter.LABELS, "label zone=a"): (1, ("elsewhere",), None),
        (Filter.STATE, "a node that is not cordoned"): (1, ("cordoned",), None),
        (Filter.STATE, "a node that is ready"): (1, ("gone",), None),
        (Filter.STATE, "2 GPUs healthy"): (1, ("broken",), None),
        (Filter.BUSY, "2 GPUs free"): (2, ("busier", "busy"), 500),
    }
    assert reasons[0].filter is Filter.BUSY, "what is nearest to fitting comes first"


@pytest.mark.rule("R20")
def test_busy_until_waits_for_enough_of_the_right_devices():
    linked = node(
        cell(1, busy=[300, 900], nvlink_group=0), cell(1, busy=[400, 600], nvlink_group=1)
    )
    (reason,) = refused(demand(line(3, topology=Topology.NVLINK_ALL)), linked)
    assert (reason.filter, reason.until_ms) == (Filter.BUSY, 600)


@pytest.mark.rule("R20", "C18")
def test_nodes_lost_to_a_rival_are_given_as_busy():
    pool = gpus(8)
    found = planner.plan(
        demand(line(1)), pool, exclude_nodes=frozenset({"id-n0"}), rng=random.Random(0)
    )
    assert [(r.filter, r.nodes) for r in found.reasons] == [(Filter.BUSY, 1)]


@pytest.mark.rule("R20")
def test_an_empty_pool_refuses_without_reasons():
    assert refused(demand(line())) == ()


# --- bounded time --------------------------------------------------------------------------------


@pytest.mark.case(9)
@pytest.mark.rule("R3")
@pytest.mark.parametrize(
    "wanted",
    [
        demand(*[line(8) for _ in range(8)]),
        demand(*[line(3, topology=Topology.SAME_NUMA) for _ in range(16)]),
        demand(*[line(3 + i % 2, topology=Topology.NVLINK_ALL) for i in range(16)]),
        Demand(lines=tuple(tuple(line(9 + i) for i in range(16)) for _ in range(16))),
        demand(*[line(4096, topology=Topology.ANY) for _ in range(16)]),
        demand(line(8), gang=Gang(1024)),
    ],
    ids=["8x8", "numa", "nvlink", "alternatives", "spread", "gang"],
)
def test_the_worst_requests_take_bounded_time(wanted):
    pool = Snapshot(
        tuple(
            node(
                *(cell(2, numa_node=k, nvlink_group=k) for k in range(4)),
                name=f"n{i}",
                resources={"vcpu": i},
            )
            for i in range(200)
        )
    )
    before = time.process_time()
    assert isinstance(plan(wanted, pool), NoFit)
    assert time.process_time() - before < 5, "counts, not combinations"


@pytest.mark.case(9)
def test_identical_devices_are_counted_and_never_combined():
    pool = gpus(*[4_096] * 3)
    before = time.process_time()
    assert len(plan(demand(line(4_096)), pool).device_ids) == 4_096
    assert time.process_time() - before < 1


def test_maintenance_is_a_reason_of_its_own_that_says_when_it_ends():
    worked_on = node(cell(8), worked_on_until=5_000)
    (reason,) = refused(
        demand(line(1)),
        worked_on,
        node(cell(8), worked_on_until=4_000),
        node(cell(0, busy=[9_000]), worked_on_until=4_000),
    )
    assert (reason.filter, reason.nodes, reason.until_ms) == (Filter.STATE, 3, 4_000)
    assert reason.needs == "a node without maintenance in that time"
    assert names(placed(demand(line(1)), worked_on, node(cell(1), name="free"))) == ["free"]
