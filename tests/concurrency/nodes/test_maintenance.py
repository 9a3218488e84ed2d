"""Maintenance announced while others book: whoever commits second sees the first (C13)."""

from datetime import timedelta
from typing import Any

import pytest

from bettercompute import clock as clocks
from bettercompute import failpoints
from bettercompute.failpoints import Failpoint
from bettercompute.wire.reservations import ExtendRequest
from nodes import eligibility, maintenance, registration
from nodes.models import Node
from nodes.operations import maintenance as operation
from nodes.operations.maintenance import Planned
from pools.models import Pool
from reservations.extending import extension
from reservations.models import Reservation
from tests.support import cast, invariants, make, races, sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C13", "N18")]


def announce(pool: Pool, node_id: str | None = None) -> bool:
    """Maintenance from half an hour on; whether it met anybody."""
    alice = cast.caller("alice")
    start = clocks.from_ms(clocks.now_ms() + 1_800_000)
    at = operation.access(alice, pool_id=None if node_id else pool.pk, node_id=node_id)
    planned = Planned(start, start + timedelta(hours=1), "rewiring")
    return bool(operation.announce(alice, at, planned).held)


def scopes(pool: Pool) -> dict[str, str | None]:
    return {"node": Node.objects.get(pool=pool).pk, "pool": None}


@pytest.mark.parametrize("scope", ["node", "pool"])
def test_a_create_that_planned_before_it_does_not_book_over_it(clock, scope):
    pool = make.pool(nodes=1)
    node_id = scopes(pool)[scope]
    failpoints.arm(Failpoint.PLACEMENT_PLANNED, lambda: announce(pool, node_id))
    try:
        made = make.reservation(cast.caller("alice"), pool)
    finally:
        failpoints.disarm()
    assert made.state == "pending"
    assert invariants.violations() == []


@pytest.mark.parametrize("scope", ["node", "pool"])
def test_it_waits_for_a_create_that_books_and_names_it(clock, scope):
    pool = make.pool(nodes=1)
    node_id = scopes(pool)[scope]
    alice = cast.caller("alice")
    steps: dict[str, Any] = {}
    with sessions.opened("operator") as (operator,):

        def meanwhile() -> None:
            steps["announcing"] = operator.start(lambda: announce(pool, node_id))
            steps["announcing"].must_block()

        failpoints.arm(Failpoint.PLACEMENT_BOOKED, meanwhile)
        try:
            made = make.reservation(alice, pool)
        finally:
            failpoints.disarm()
        assert made.state == "placed"
        assert steps["announcing"].result() is True, "it met the one who was first"
    assert invariants.violations() == []


def test_without_its_lock_a_create_would_book_over_it(clock, monkeypatch):
    """The negative control: the same race, with an announcement that locks no node."""
    pool = make.pool(nodes=1)
    node_id = Node.objects.get(pool=pool).pk
    races.without(monkeypatch, maintenance.MAINTENANCE, "lock_nodes", "FOR NO KEY UPDATE")
    with sessions.opened("operator") as (operator,):
        failpoints.arm(
            Failpoint.PLACEMENT_BOOKED, lambda: operator.run(lambda: announce(pool, node_id))
        )
        try:
            made = make.reservation(cast.caller("alice"), pool)
        finally:
            failpoints.disarm()
    assert made.state == "placed"
    assert any("maintenance.booked-over" in each for each in invariants.violations())


def extend(reservation: Reservation) -> extension.Extended:
    return extension.extend(
        cast.caller("alice"),
        ExtendRequest(tenant_id=cast.tenant().pk, by="1h"),
        reservation_id=reservation.pk,
        idempotency_key="longer",
    )


@pytest.mark.rule("R33")
@pytest.mark.parametrize("locked", [True, False], ids=["locked", "negative control"])
def test_an_extension_and_an_announcement_take_turns(clock, monkeypatch, locked):
    pool = make.pool(nodes=1)
    held = make.active(cast.caller("alice"), pool, duration="20m")
    node_id = Node.objects.get(pool=pool).pk
    if not locked:
        guard = "FOR NO KEY UPDATE"
        races.without(monkeypatch, maintenance.MAINTENANCE, "lock_pool", guard)
    with sessions.opened("holder", "operator") as (holder, operator):
        operator.begin()
        assert operator.run(lambda: announce(pool, node_id)) is False
        extending = holder.start(lambda: extend(held))
        extending.must_block()  # without the lock behind its booking, where it wakes its own key
        operator.commit()
        assert extending.result().extended is not locked
    assert (invariants.violations() == []) is locked


def test_a_node_that_joins_meanwhile_is_not_booked_either(clock):
    pool = make.pool(nodes=0)
    with sessions.opened("operator", "agent") as (operator, agent):
        operator.begin()
        operator.run(lambda: announce(pool))
        joining = agent.start(lambda: registration.register(pool.pk, "gpu-late"))
        joining.must_block()
        operator.commit()
        joining.result()
    node = Node.objects.get(name="gpu-late")
    assert eligibility.lock(node_ids=[node.pk], device_ids=[]).nodes[node.pk].eligible
    assert maintenance.standing(pool.pk, node_id=node.pk), "its pool's is its own"
