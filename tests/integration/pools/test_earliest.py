"""The first start at which it would fit (R20)."""

import random
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bettercompute import clock as clocks
from bettercompute.iam import policies
from bettercompute.wire.capacity import Preview
from nodes import bookings, eligibility, resources
from nodes.models import Node
from pools import earliest, preview, requests, snapshot
from pools.models import Pool
from pools.planner.plan import Plan
from pools.planner.request import Demand
from tests.support import cast, make, supply

pytestmark = [pytest.mark.django_db, pytest.mark.rule("R20")]

HOUR = timedelta(hours=1)
WITHIN_AN_HOUR = """
forbid (principal, action, resource)
when { context has leadMinutes && context.leadMinutes > 60 };
"""


def book(node: Node, *, cards: int, after: float, hours: float) -> None:
    """Book so many cards of a node, the first ones, some hours from now."""
    made = bookings.book(
        allocation_id=make.key(),
        device_ids=supply.devices(node)[:cards],
        **supply.window(after * HOUR, hours),
    )
    assert made == cards


def look(pool: Pool, *, by: str = "alice", **changes: Any) -> Preview:
    caller = cast.caller(by)
    return preview.preview(caller, make.request(caller, pool, **changes))


def hours_from_now(found: Preview) -> float | None:
    if found.earliest is None:
        return None
    return (found.earliest - clocks.now_ms()) / 3_600_000


def test_it_is_when_enough_devices_of_one_node_are_free_for_long_enough():
    pool = make.pool(nodes=2, gpus=2)
    first, second = Node.objects.order_by("name")
    book(first, cards=2, after=0, hours=5)
    book(second, cards=2, after=0, hours=2)
    book(second, cards=1, after=3, hours=4)
    assert hours_from_now(look(pool, gpus=2, duration="1h")) == 2
    assert hours_from_now(look(pool, gpus=2, duration="2h")) == 5
    assert hours_from_now(look(pool, gpus=1, duration="8h")) == 2


def test_a_start_asked_for_is_where_the_search_begins():
    pool = make.pool(nodes=1, gpus=1)
    (node,) = Node.objects.all()
    book(node, cards=1, after=2, hours=1)
    asked = clocks.now_ms() + 2 * 3_600_000
    assert hours_from_now(look(pool, start=asked, duration="1h")) == 3
    assert look(pool, duration="1h").fits


def test_a_gang_waits_until_all_its_nodes_can_begin_together():
    pool = make.pool(nodes=3, gpus=1)
    for hours, node in enumerate(Node.objects.order_by("name"), start=1):
        book(node, cards=1, after=0, hours=hours)
    assert hours_from_now(look(pool, gang={"nodes": 2}, duration="1h")) == 2
    assert hours_from_now(look(pool, gang={"nodes": 3}, duration="1h")) == 3


def test_devices_of_any_nodes_are_counted_together():
    pool = make.pool(nodes=2, gpus=1)
    for hours, node in enumerate(Node.objects.order_by("name"), start=1):
        book(node, cards=1, after=0, hours=hours)
    anywhere = [{"class": "gpu", "count": 2, "topology": "any"}]
    assert hours_from_now(look(pool, devices=anywhere, duration="1h")) == 2


def test_a_host_without_room_is_passed_over():
    pool = make.pool(nodes=1, gpus=2, perGpu={"vcpu": 1, "memoryGiB": 1})
    (node,) = Node.objects.all()
    book(node, cards=1, after=0, hours=1)
    book(node, cards=1, after=1, hours=1)
    window = supply.window(timedelta(0), 2)
    assert resources.book(node_amounts=[(node.pk, "alloc_x", {"vcpu": 150})], **window)
    assert hours_from_now(look(pool, gpus=1, resources={"vcpu": 100}, duration="1h")) == 2


def test_a_host_that_is_only_a_late_choice_is_waited_for():
    pool = make.pool(nodes=1, gpus=1)
    (node,) = Node.objects.all()
    eligibility.taint(node.pk, [{"key": "old", "effect": "PreferNoSchedule"}])
    book(node, cards=1, after=0, hours=2)
    assert hours_from_now(look(pool)) == 2


def test_more_ends_are_looked_at_where_the_first_do_not_do(monkeypatch):
    monkeypatch.setattr(earliest, "ENDS", (1, 2, None))
    pool = make.pool(nodes=2, gpus=2)
    first, second = Node.objects.order_by("name")
    for hours in (1, 2, 3, 4):  # one card of the first ends each hour, and the other begins
        book(first, cards=1, after=hours - 1, hours=1)
    bookings.book(
        allocation_id=make.key(),
        device_ids=supply.devices(first)[1:],
        **supply.window(timedelta(0), 9),
    )
    book(second, cards=2, after=0, hours=5)
    assert hours_from_now(look(pool, gpus=2)) == 5
    assert hours_from_now(look(pool, gpus=2, gang={"nodes": 2})) == 9
    assert hours_from_now(look(pool, gpus=1)) == 4


def test_hosts_that_are_free_already_count_before_the_next_ends(monkeypatch):
    """Of a gang of two the free host is one: it waits for one end only."""
    monkeypatch.setattr(earliest, "ENDS", (2, None))
    pool = make.pool(nodes=3, gpus=1)
    for hours, node in enumerate(Node.objects.order_by("name")):
        if hours:
            book(node, cards=1, after=0, hours=hours)
    assert hours_from_now(look(pool, gang={"nodes": 2}, duration="1h")) == 1
    two = [{"class": "gpu", "count": 2, "topology": "any"}]
    assert hours_from_now(look(pool, devices=two, duration="1h")) == 1


def test_where_waiting_does_not_help_there_is_none():
    pool = make.pool(nodes=1, gpus=2)
    (node,) = Node.objects.all()
    assert look(pool, gpus=4).earliest is None
    eligibility.cordon(node.pk)
    assert look(pool, gpus=1).earliest is None
    eligibility.uncordon(node.pk)
    make.grant("acme", gpus=1)
    book(node, cards=2, after=0, hours=1)
    assert look(pool, gpus=2).earliest is None, "beyond the quota"
    assert hours_from_now(look(pool, gpus=1)) == 1


def test_the_pools_and_the_policies_limits_bound_it():
    pool = make.pool(nodes=1, gpus=1, maxAhead="2h")
    (node,) = Node.objects.all()
    book(node, cards=1, after=0, hours=3)
    assert look(pool).earliest is None
    other = make.pool(nodes=1, gpus=1)
    book(Node.objects.get(pool=other), cards=1, after=0, hours=3)
    assert hours_from_now(look(other)) == 3
    policies.create(cast.caller("alice"), draft=policies.Draft("near", WITHIN_AN_HOUR))
    assert look(other).earliest is None


@pytest.mark.django_db(transaction=True)
def test_a_create_at_that_start_is_placed():
    pool = make.pool(nodes=2, gpus=2)
    alice = cast.caller("alice")
    for hours in (1, 2):
        make.reservation(alice, pool, gpus=2, duration=f"{hours}h")
    found = look(pool, gpus=2, duration="4h")
    assert not found.fits
    made = make.reservation(alice, pool, gpus=2, duration="4h", start=found.earliest)
    assert made.state == "placed"


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    busy=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(1, 4)), max_size=14),
    gpus=st.integers(1, 2),
    nodes=st.integers(1, 3),
    hours=st.integers(1, 3),
)
def test_a_search_by_hand_finds_the_same(monkeypatch, busy, gpus, nodes, hours):
    """Against every whole hour, looked at one by one, on three hosts of two cards."""
    monkeypatch.setattr(earliest, "ENDS", (2, 5, None))
    pool = make.pool(nodes=3, gpus=2)
    cards = [
        card
        for node in Node.objects.filter(pool=pool).order_by("name")
        for card in supply.devices(node)
    ]
    for card, after, length in busy:
        bookings.book(
            allocation_id=make.key(),
            device_ids=[cards[card]],
            **supply.window(after * HOUR, length),
        )
    demand = _demand(pool, gpus=gpus, gang={"nodes": nodes})
    now, length = clocks.now(), hours * HOUR
    by_hand = next(
        start
        for start in (now + hour * HOUR for hour in range(1, 30))
        if _fits(pool, demand, start, length)
    )
    found = earliest.find(
        pool.pk, demand, after=now, until=now + 40 * HOUR, length=length, rng=random.Random(1)
    )
    if _fits(pool, demand, now, length):
        return  # then nobody asks
    assert found == by_hand


def _demand(pool: Pool, **changes: Any) -> Demand:
    request = make.request(cast.caller("alice"), pool, **changes)
    return requests.normalise(request, now_ms=clocks.now_ms()).demand({}, replicas=4)


def _fits(pool: Pool, demand: Demand, start: datetime, length: timedelta) -> bool:
    found = snapshot.find(pool.pk, demand, start=start, end=start + length, rng=random.Random(1))
    return isinstance(found, Plan)
