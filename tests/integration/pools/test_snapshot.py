"""One read of a pool: what is free of it for the whole window, and what is not."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bettercompute.wire.reservations import DeviceClass, GangTopology, Topology
from nodes import bookings, conditions, eligibility, resources
from nodes.conditions import Condition, Why
from pools import snapshot
from pools.planner.plan import NoFit, Plan
from pools.planner.request import Demand, Gang, Term
from pools.planner.snapshot import Node, Snapshot
from pools.snapshot import Reach
from tests.support import make, supply
from tests.support.snapshots import demand, line

pytestmark = [pytest.mark.django_db, pytest.mark.rule("R15")]

ONE = demand(line(1))


@pytest.fixture
def pool():
    return supply.pool()


def read(pool, wanted: Demand = ONE, *, reach: Reach = Reach.WHOLE, turn=0, **when) -> Snapshot:
    window = supply.window(**when)
    return snapshot.read(pool.pk, request=wanted, reach=reach, turn=turn, **window)


def only(pool, wanted: Demand = ONE, **when) -> Node:
    (node,) = read(pool, wanted, **when).nodes
    return node


reads: list[int] = []


@contextmanager
def reads_counted() -> Iterator[None]:
    """Notes in ``reads`` how many statements were sent."""
    with CaptureQueriesContext(connection) as sent:
        yield
    reads.append(len(sent))


def find(
    pool, wanted: Demand, *, exclude: frozenset[str] = frozenset(), seed: int = 0, **when
) -> Plan | NoFit:
    window = supply.window(**when)  # asks what time it is, which is not counted
    with reads_counted():
        return snapshot.find(
            pool.pk, wanted, exclude_nodes=exclude, rng=random.Random(seed), **window
        )


def free(node: Node) -> set[str]:
    return {device for cell in node.cells for device in cell.free}


def test_it_reads_a_node_with_all_that_the_planner_judges(pool):
    made = supply.node(pool, gpus=2, vcpu=66)
    eligibility.set_labels(made.pk, {"zone": "a"})
    eligibility.set_system_labels(made.pk, {"bc.dev/cap.devices.limits": "true"})
    eligibility.taint(made.pk, [{"key": "team", "value": "vision", "effect": "NoSchedule"}])
    conditions.put(Condition.DISCONNECTED, {made.pk: Why()})
    node = only(pool, demand(line(1), resources={"vcpu": 1}))
    assert (node.id, node.name, node.state, node.cordoned, node.connected) == (
        made.pk,
        made.name,
        "ready",
        False,
        False,
    )
    assert node.label("zone") == "a"
    assert node.label("bc.dev/cap.devices.limits") == "true"
    assert [str(taint) for taint in node.taints] == ["team=vision:NoSchedule"]
    assert node.resources == {"vcpu": 64}
    assert free(node) == set(supply.devices(made))
    assert {(cell.model, cell.memory_gib) for cell in node.cells} == {("H100", 80)}


def test_a_booking_takes_its_device_for_every_window_that_it_meets_and_no_other(pool, clock):
    made = supply.node(pool, gpus=2)
    first, second = supply.devices(made)
    bookings.book(
        allocation_id="alloc_a",
        device_ids=[first],
        **supply.window(timedelta(hours=2), hours=2),
    )
    for starts_in, taken in ((0, False), (1, True), (3, True), (4, False)):
        node = only(pool, starts_in=timedelta(hours=starts_in), hours=2)
        assert (first not in free(node)) is taken, f"in {starts_in} h"
        assert second in free(node)
        ends = [end for cell in node.cells for end in cell.busy_until]
        assert ends == ([clock.now_ms() + 4 * 3_600_000] if taken else [])


def test_adjacent_bookings_of_a_device_are_busy_until_the_last_one_ends(pool, clock):
    made = supply.node(pool, gpus=1)
    for number in range(3):
        bookings.book(
            allocation_id=f"alloc_{number}",
            device_ids=supply.devices(made),
            **supply.window(timedelta(hours=number), hours=1),
        )
    (cell,) = only(pool, hours=2).cells
    assert cell.busy_until == (clock.now_ms() + 2 * 3_600_000,)


def test_an_extended_booking_is_busy_until_its_extension_ends(pool, clock):
    made = supply.node(pool, gpus=1)
    for allocation, after in (("alloc_a", 0), ("alloc_a", 1), ("alloc_a", 2), ("alloc_b", 3)):
        bookings.book(
            allocation_id=allocation,
            device_ids=supply.devices(made),
            **supply.window(timedelta(hours=after), hours=1),
        )
    (cell,) = only(pool, hours=1).cells
    assert cell.busy_until == (clock.now_ms() + 3 * 3_600_000,)
    (reason,) = find(pool, ONE, hours=1).reasons
    assert (reason.filter, reason.until_ms) == ("busy", clock.now_ms() + 3 * 3_600_000)


def test_unhealthy_and_quarantined_devices_are_counted_and_not_free(pool):
    made = supply.node(pool, gpus=4)
    one, other, *rest = supply.devices(made)
    made.devices.filter(pk=one).update(healthy=False)
    eligibility.quarantine(other, reason="test")
    node = only(pool)
    assert free(node) == set(rest)
    assert sum(cell.unhealthy for cell in node.cells) == 2
    assert sum(cell.total for cell in node.cells) == 4


def test_devices_that_are_not_bookable_and_other_pools_are_not_seen(pool):
    made = supply.node(pool, gpus=2)
    made.devices.filter(index=0).update(bookable_mode=None)
    supply.node(supply.pool())
    assert free(only(pool)) == {supply.devices(made)[1]}


@pytest.mark.rule("C12")
def test_host_resources_are_what_the_peak_within_the_window_leaves(pool):
    made = supply.node(pool, vcpu=66)
    for number, (starts_in, vcpu) in enumerate(((0, 10), (1, 20), (2, 30))):
        assert resources.book(
            node_amounts=[(made.pk, f"alloc_{number}", {"vcpu": vcpu})],
            **supply.window(timedelta(hours=starts_in), hours=1.5),
        )
    everything = demand(line(1), resources={"vcpu": 64})  # forces the exact peak
    for starts_in, hours, left in ((0, 1, 54), (0, 2, 34), (0, 4, 14), (3.5, 1, 64)):
        node = only(pool, everything, starts_in=timedelta(hours=starts_in), hours=hours)
        assert node.resources == {"vcpu": left}, f"in {starts_in} h for {hours} h"


def test_where_the_peak_over_all_time_leaves_enough_it_is_what_counts(pool):
    made = supply.node(pool, vcpu=66)
    resources.book(
        node_amounts=[(made.pk, "alloc_a", {"vcpu": 10})],
        **supply.window(timedelta(days=1), hours=1),
    )
    assert only(pool, demand(line(1), resources={"vcpu": 54})).resources == {"vcpu": 54}
    assert only(pool, demand(line(1), resources={"vcpu": 55})).resources == {"vcpu": 64}


def test_a_sample_goes_on_at_the_beginning_where_the_ring_ends(pool, monkeypatch):
    monkeypatch.setattr(snapshot, "SAMPLED_NODES_MAX", 3)
    made = {supply.node(pool, gpus=1).pk for _ in range(5)}
    for turn in range(-(2**63), 2**63, 2**59):  # somewhere among them lie the five nodes
        part = read(pool, reach=Reach.NEAR, turn=turn)
        assert len({node.id for node in part.nodes} & made) == 3
        assert not part.around
        everything = read(pool, reach=Reach.AROUND, turn=turn)
        assert {node.id for node in everything.nodes} == made
        assert everything.around


def test_samples_differ_so_that_rivals_do(pool, monkeypatch):
    monkeypatch.setattr(snapshot, "SAMPLED_NODES_MAX", 1)
    for _ in range(8):
        supply.node(pool, gpus=1)
    turns = range(-(2**63), 2**63, 2**59)
    assert len({read(pool, reach=Reach.NEAR, turn=turn).nodes[0].id for turn in turns}) > 2


def test_a_gang_of_one_rack_is_shown_whole_racks(pool, monkeypatch):
    monkeypatch.setattr(snapshot, "SAMPLED_PLACES_MAX", 1)
    racks: dict[str, set[str]] = {}
    for number in range(6):
        made = supply.node(pool, gpus=1)
        rack = f"rack-{number % 2}"
        eligibility.set_labels(made.pk, {"topology.bc.dev/rack": rack})
        racks.setdefault(rack, set()).add(made.pk)
    wanted = demand(line(1), gang=Gang(3, GangTopology.SAME_RACK))
    found = {node.id for node in read(pool, wanted, reach=Reach.NEAR).nodes}
    assert found in list(racks.values())
    assert isinstance(find(pool, wanted), Plan)


def test_a_narrowed_read_has_the_best_fit_and_leaves_out_what_cannot_serve(pool, monkeypatch):
    monkeypatch.setattr(snapshot, "LIKELIEST_NODES_MAX", 2)
    big, small, tiny, closed, full = (supply.node(pool, gpus=n) for n in (8, 3, 1, 3, 4))
    eligibility.cordon(closed.pk)
    bookings.book(allocation_id="alloc_a", device_ids=supply.devices(full)[:2], **supply.window())
    nodes = read(pool, demand(line(3)), reach=Reach.NEAR).nodes
    assert {node.id for node in nodes} == {big.pk, small.pk}
    assert {node.id for node in read(pool, demand(line(1)), reach=Reach.NEAR).nodes} == {
        tiny.pk,
        full.pk,
    }
    ranged = read(pool, demand(line(1, most=8)), reach=Reach.NEAR)
    assert big.pk in {node.id for node in ranged.nodes}, "as many as fit come first"


def test_what_the_likeliest_nodes_cannot_serve_is_looked_for_in_the_whole_pool(pool, monkeypatch):
    monkeypatch.setattr(snapshot, "LIKELIEST_NODES_MAX", 1)
    for _ in range(3):
        supply.node(pool, gpus=1)
    wanted = supply.node(pool, gpus=8)
    eligibility.set_labels(wanted.pk, {"zone": "a"})
    found = find(pool, demand(line(1, selector=(Term("zone", "=", ("a",)),))))
    assert isinstance(found, Plan)
    assert found.node_ids == [wanted.pk]
    spread = find(pool, demand(line(10, topology=Topology.ANY)))
    assert isinstance(spread, Plan)
    assert len(spread.device_ids) == 10
    again = find(pool, demand(line(8)), exclude=frozenset({wanted.pk}))
    assert isinstance(again, NoFit)
    assert sum(reason.nodes for reason in again.reasons) == 4


def test_a_request_that_fits_near_is_one_read_and_a_refusal_looks_everywhere(pool, monkeypatch):
    supply.node(pool)
    assert isinstance(find(pool, ONE), Plan)
    assert isinstance(find(pool, demand(line(2), gang=Gang(1))), Plan)
    assert isinstance(find(pool, demand(line(9))), NoFit)
    assert reads[-3:] == [1, 1, 2]
    monkeypatch.setattr(snapshot, "SAMPLED_NODES_MAX", 1)
    for _ in range(3):
        supply.node(pool, gpus=1)
    found = find(pool, demand(line(17)))
    assert isinstance(found, NoFit)
    assert sum(reason.nodes for reason in found.reasons) == 4
    assert reads[-1] == 3


def test_what_the_sample_lacks_is_found_around_the_pool(pool, monkeypatch):
    monkeypatch.setattr(snapshot, "SAMPLED_NODES_MAX", 1)
    for _ in range(5):
        supply.node(pool, gpus=1)
    wanted = supply.node(pool, gpus=8)
    for seed in range(5):
        found = find(pool, demand(line(8)), seed=seed)
        assert isinstance(found, Plan)
        assert found.node_ids == [wanted.pk]
        assert reads[-1] <= 2


@pytest.mark.parametrize("booked_tomorrow", [0, 60])
def test_around_the_pool_hosts_without_what_is_asked_are_passed_over(
    pool, monkeypatch, booked_tomorrow
):
    """What a host has left in the window counts, whatever it has booked at another time."""
    monkeypatch.setattr(snapshot, "SAMPLED_NODES_MAX", 1)
    monkeypatch.setattr(snapshot, "LIKELIEST_NODES_MAX", 1)
    hosts = [supply.node(pool, vcpu=vcpu) for vcpu in (10, 10, 10, 10, 10, 66)]
    for host in hosts:
        eligibility.set_system_labels(host.pk, {"bc.dev/cap.devices.limits": "true"})
    wanted = hosts[-1]
    if booked_tomorrow:
        claims = [(wanted.pk, "alloc_a", {"vcpu": booked_tomorrow})]
        assert resources.book(node_amounts=claims, **supply.window(timedelta(days=1), hours=1))
    for seed in range(5):
        found = find(pool, demand(line(1), resources={"vcpu": 30}), seed=seed)
        assert isinstance(found, Plan)
        assert found.node_ids == [wanted.pk]
        assert reads[-1] <= 2


def test_an_alternative_is_taken_only_where_what_is_preferred_is_nowhere(pool, monkeypatch):
    monkeypatch.setattr(snapshot, "SAMPLED_NODES_MAX", 1)
    for _ in range(4):
        supply.node(pool, gpus=2)
    large = supply.node(pool, gpus=8)
    eight_or_two = Demand(lines=((line(8), line(2)),))
    for _ in range(4):
        found = find(pool, eight_or_two)
        assert isinstance(found, Plan)
        assert found.lines == (line(8),)
    eligibility.cordon(large.pk)
    found = find(pool, eight_or_two)
    assert isinstance(found, Plan)
    assert found.lines == (line(2),)


def test_labels_asked_for_by_value_narrow(pool, monkeypatch):
    monkeypatch.setattr(snapshot, "SAMPLED_NODES_MAX", 2)
    others = [supply.node(pool, gpus=1) for _ in range(6)]
    wanted = supply.node(pool, gpus=1)
    eligibility.set_labels(wanted.pk, {"zone": "a"})
    eligibility.set_system_labels(wanted.pk, {"bc.dev/gpu.family": "hopper"})
    eligibility.set_system_labels(others[0].pk, {"bc.dev/gpu.family": "ampere"})
    for terms in (
        (Term("zone", "=", ("a",)),),
        (Term("bc.dev/gpu.family", "=", ("hopper",)),),
        (Term("zone", "!=", ("b",)), Term("zone", "=", ("a",))),
    ):
        part = read(pool, demand(line(1, selector=terms)), reach=Reach.NEAR)
        assert [node.id for node in part.nodes] == [wanted.pk]
        assert part.around
    labelled = demand(line(1), labels=("bc.dev/gpu.family",))
    assert len(read(pool, labelled, reach=Reach.NEAR).nodes) == 2


def test_only_taints_that_keep_work_off_leave_a_node_out(pool):
    hard, soft, plain = (supply.node(pool, gpus=1) for _ in range(3))
    eligibility.taint(hard.pk, [{"key": "team", "value": "vision"}])
    eligibility.taint(soft.pk, [{"key": "old", "effect": "PreferNoSchedule"}])
    assert {node.id for node in read(pool, reach=Reach.NEAR).nodes} == {soft.pk, plain.pk}
    for node in (plain, hard):
        eligibility.cordon(node.pk)
    found = find(pool, ONE)
    assert isinstance(found, Plan)
    assert found.node_ids == [soft.pk]
    assert reads[-1] == 1


def test_the_kind_of_which_most_is_asked_narrows(pool, monkeypatch):
    monkeypatch.setattr(snapshot, "SAMPLED_NODES_MAX", 10)
    made = supply.node(pool, gpus=4)
    supply.node(pool, gpus=2)
    named = Term("model", "=", ("H100",))
    mixed = demand(line(1, selector=(named,)), line(3))
    assert {node.id for node in read(pool, mixed, reach=Reach.NEAR).nodes} == {made.pk}
    mig = line(1, device_class=DeviceClass.MIG, profile="1g.10gb")
    assert {node.id for node in read(pool, demand(mig, line(3)), reach=Reach.NEAR).nodes} == {
        made.pk
    }


def test_what_is_planned_from_a_read_can_be_booked(pool):
    for _ in range(3):
        make.node(pool, gpus=4)
    for number in range(6):
        found = find(pool, demand(line(2), resources={"vcpu": 8}))
        assert isinstance(found, Plan)
        (part,) = found.parts
        booked = bookings.book(
            allocation_id=f"alloc_{number}",
            device_ids=part.device_ids,
            **supply.window(),
        )
        assert booked == 2
    found = find(pool, demand(line(1)))
    assert isinstance(found, NoFit)
    (reason,) = found.reasons
    assert (reason.filter, reason.nodes) == ("busy", 3)
