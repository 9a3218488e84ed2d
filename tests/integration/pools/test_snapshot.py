"""One read of a pool: what is free of it for the whole window, and what is not."""

import random
from datetime import timedelta

import pytest

from bettercompute.wire.reservations import Topology
from nodes import bookings, conditions, eligibility, resources
from nodes.conditions import Condition, Why
from pools import snapshot
from pools.planner.plan import NoFit, Plan
from pools.planner.request import Demand, Gang, Term
from pools.planner.snapshot import Node, Snapshot
from tests.support import make, supply
from tests.support.snapshots import demand, line

pytestmark = [pytest.mark.django_db, pytest.mark.rule("R15")]

ONE = demand(line(1))


@pytest.fixture
def pool():
    return supply.pool()


def read(pool, wanted: Demand = ONE, *, whole: bool = True, **when) -> Snapshot:
    window = supply.window(**when)
    return snapshot.read(pool.pk, request=wanted, whole=whole, **window)


def only(pool, wanted: Demand = ONE, **when) -> Node:
    (node,) = read(pool, wanted, **when).nodes
    return node


def find(pool, wanted: Demand, *, exclude: frozenset[str] = frozenset(), **when) -> Plan | NoFit:
    return snapshot.find(
        pool.pk,
        wanted,
        exclude_nodes=exclude,
        rng=random.Random(0),
        **supply.window(**when),
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


@pytest.mark.parametrize(
    ("wanted", "narrowed"),
    [
        (ONE, True),
        (demand(line(2), line(3)), True),
        (demand(line(2, topology=Topology.ANY)), True),
        (demand(line(2), gang=Gang(2)), False),
        (Demand(lines=((line(1), line(2)),)), False),
    ],
)
def test_only_plain_requests_are_narrowed(pool, wanted, narrowed):
    assert read(pool, wanted, whole=False).whole is not narrowed


def test_a_narrowed_read_has_the_best_fit_and_leaves_out_what_cannot_serve(pool, monkeypatch):
    monkeypatch.setattr(snapshot, "LIKELIEST_NODES_MAX", 2)
    big, small, tiny, closed, full = (supply.node(pool, gpus=n) for n in (8, 3, 1, 3, 4))
    eligibility.cordon(closed.pk)
    bookings.book(allocation_id="alloc_a", device_ids=supply.devices(full)[:2], **supply.window())
    nodes = read(pool, demand(line(3)), whole=False).nodes
    assert {node.id for node in nodes} == {big.pk, small.pk}
    assert {node.id for node in read(pool, demand(line(1)), whole=False).nodes} == {
        tiny.pk,
        full.pk,
    }
    ranged = read(pool, demand(line(1, most=8)), whole=False)
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


def test_a_plain_request_that_fits_is_one_query(pool, django_assert_num_queries):
    supply.node(pool)
    window = supply.window()
    with django_assert_num_queries(1):
        found = snapshot.find(pool.pk, ONE, rng=random.Random(0), **window)
    assert isinstance(found, Plan)
    with django_assert_num_queries(2):
        snapshot.find(pool.pk, demand(line(9)), rng=random.Random(0), **window)


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
