"""What is found is there: in the rows, and wherever a search of everything finds something too."""

import random
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from nodes import bookings, eligibility
from pools import snapshot
from pools.models import Pool
from pools.planner import plan as planner
from pools.planner.plan import Plan
from pools.planner.snapshot import Snapshot
from tests.support import make, snapshots, supply

pytestmark = [pytest.mark.django_db, pytest.mark.rule("R15")]

HOUR = timedelta(hours=1)
WINDOWS = st.tuples(st.integers(0, 3), st.integers(1, 3))


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    stock=st.tuples(
        st.lists(st.integers(1, 4), min_size=1, max_size=4),  # hosts with so many cards
        st.lists(st.tuples(st.integers(0, 15), WINDOWS), max_size=8),  # a card is booked
        st.integers(0, 8),  # which host is cordoned
    ),
    wanted=snapshots.demands,
    window=WINDOWS,
    sampled=st.integers(1, 3),
)
def test_what_is_found_can_be_booked_and_what_is_not_is_nowhere(
    monkeypatch, stock, wanted, window, sampled
):
    monkeypatch.setattr(snapshot, "SAMPLED_NODES_MAX", sampled)
    monkeypatch.setattr(snapshot, "SAMPLED_PLACES_MAX", 1)
    monkeypatch.setattr(snapshot, "LIKELIEST_NODES_MAX", 1)
    pool = _stocked(*stock)
    when = supply.window(window[0] * HOUR, window[1])
    found = snapshot.find(pool.pk, wanted, rng=random.Random(1), **when)
    event(type(found).__name__)
    everything = snapshot.read(pool.pk, request=wanted, **when)
    assert isinstance(found, Plan) == isinstance(
        planner.plan(wanted, everything, rng=random.Random(2)), Plan
    )
    searched = snapshot.search(pool.pk, wanted, rng=random.Random(3), **when)
    assert (searched is not None) == isinstance(found, Plan)
    if isinstance(found, Plan):
        _check_bookable(found, everything, **when)


def _stocked(hosts, booked, cordoned) -> Pool:
    pool = supply.pool()
    nodes = [supply.node(pool, gpus=gpus, vcpu=2 + 2 * gpus) for gpus in hosts]
    for number, node in enumerate(nodes):
        eligibility.set_system_labels(node.pk, snapshots.LIMITS)
        eligibility.set_labels(node.pk, snapshots.LABELS[number % len(snapshots.LABELS)])
    devices = [device for node in nodes for device in supply.devices(node)]
    for device, (after, hours) in booked:
        bookings.book(
            allocation_id=make.key(),
            device_ids=[devices[device % len(devices)]],
            **supply.window(after * HOUR, hours),
        )
    if cordoned < len(nodes):
        eligibility.cordon(nodes[cordoned].pk)
    return pool


def _check_bookable(found: Plan, everything: Snapshot, **when) -> None:
    """On the rows that nobody changed meanwhile, as the commit does."""
    free = {node.id: node.resources for node in everything.nodes}
    for part in found.parts:
        assert all(free[part.node_id][name] >= amount for name, amount in part.resources.items())
    locked = eligibility.lock(node_ids=found.node_ids, device_ids=found.device_ids)
    assert all(each.eligible for each in [*locked.nodes.values(), *locked.devices.values()])
    claims = {make.key(): part.device_ids for part in found.parts}
    assert bookings.book_gang(claims=claims, **when) == len(found.device_ids)
