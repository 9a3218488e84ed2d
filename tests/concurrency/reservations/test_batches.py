"""A batch among those who lock what it locks (C19): one order, so whoever is second only waits."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError

from bettercompute import clock as clocks
from bettercompute.agent.inventory import Health
from bettercompute.wire.reservations import ExtendRequest
from nodes import bookings, inventory
from nodes.models import Device, DeviceBooking, Node
from pools import catalogue
from pools.models import Placer, Pool
from pools.planner.packing import Part
from pools.planner.plan import Plan
from reservations import ending, placement
from reservations.extending import extension
from reservations.models import Reservation
from reservations.placement import Placed
from reservations.placing import batch_placement, line, pending
from reservations.placing.batch_placement import Chosen, Lost
from tests.support import cast, invariants, make, races, sessions, supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C19", "R13")]


def queued(**supplied: Any) -> Pool:
    return make.placed_by(Placer.QUEUED, make.pool(**supplied))


def planned(pool: Pool) -> list[Chosen]:
    """Two that wait, each planned for one device of the only host: the last one, then the first."""
    node = Node.objects.get()
    devices = sorted(supply.devices(node))
    chosen = []
    for device in (devices[-1], devices[0]):
        row = make.reservation(cast.caller("alice"), pool)
        claim = pending.claim_of(row, catalogue.of_tenant(row.tenant_id, row.pool_id))
        part = Part(node.pk, node.name, (device,), dict(claim.demand.resources))
        plan = Plan((part,), tuple(options[0] for options in claim.demand.lines))
        chosen.append(Chosen(claim, plan, claim.window(clocks.now())))
    return chosen


def report(sick: int = 3) -> None:
    """The host has one CPU more, and a card that is ill: its devices change, then its resources."""
    node = Node.objects.get()
    host = supply.host(node.name, vcpu=195)
    gpus = tuple(
        gpu.model_copy(update={"health": Health.UNHEALTHY}) if gpu.index == sick else gpu
        for gpu in host.gpus
    )
    inventory.apply(node.pk, host.model_copy(update={"gpus": gpus}))


def one_after_the_other(chosen: list[Chosen]) -> Callable[[], object]:
    return lambda: [placement.place(c.claim, c.plan, now=c.window.start) for c in chosen]


def test_a_report_of_the_host_waits_for_a_batch_and_then_applies():
    chosen = planned(queued())
    with sessions.opened("placer", "agent") as (placer, agent):
        placer.begin()
        made = placer.run(lambda: batch_placement.place(chosen))
        applying = agent.start(report)
        applying.must_block()
        placer.commit()
        applying.result()
    assert [type(each) for each in made.values()] == [Placed, Placed]
    assert DeviceBooking.objects.count() == 2


@pytest.mark.rule("C13")
def test_a_batch_waits_for_a_report_and_then_judges_what_it_says():
    chosen = planned(queued())
    first = chosen[1].plan.device_ids[0]
    sick = supply.devices(Node.objects.get()).index(first)
    with sessions.opened("agent", "placer") as (agent, placer):
        agent.begin()
        agent.run(lambda: report(sick))
        placer.begin()
        placing = placer.start(lambda: batch_placement.place(chosen))
        placing.must_block()
        agent.commit()
        made = placing.result()
        placer.commit()
    assert [type(each) for each in made.values()] == [Placed, Lost]
    assert DeviceBooking.objects.count() == 1


@pytest.mark.any_lock_order
def test_placed_one_after_the_other_they_and_a_report_deadlock():
    """The negative control: devices of the second are locked behind resources of the first."""
    ahead, behind = planned(queued())
    with sessions.opened("placer", "agent") as (placer, agent):
        placer.begin()
        placer.run(one_after_the_other([ahead]))
        applying = agent.start(report)
        applying.must_block()
        placing = placer.start(one_after_the_other([behind]))
        ends = []
        for step in (placing, applying):
            try:
                ends.append(type(step.result()))
            except OperationalError as error:
                ends.append(type(error.__cause__))
                placer.rollback()
    assert "DeadlockDetected" in {end.__name__ for end in ends}


def test_two_batches_that_want_the_same_devices_in_another_order_both_end():
    chosen = planned(queued())
    with sessions.opened("one", "other") as (one, other):
        one.begin()
        one.run(lambda: batch_placement.place(chosen))
        other.begin()
        second = other.start(lambda: batch_placement.place(chosen[::-1]))
        second.must_block()
        one.commit()
        made = second.result()
        other.commit()
    assert [type(each) for each in made.values()] == [Lost, Lost]
    assert DeviceBooking.objects.count() == 2


@pytest.mark.rule("C16", "R33", "R35")
def test_a_line_is_placed_while_holders_extend_and_leave_and_the_host_reports(clock):
    pool, alice = queued(), cast.caller("alice")
    holders = [make.reservation(alice, pool, duration="1h") for _ in range(4)]
    make.look_at_pool(pool)
    deadlocks = races.deadlocks()
    for number, leaver in enumerate(holders[:3]):
        for _ in range(4):
            make.reservation(alice, pool, duration="30m")
        outcome = sessions.race(
            lambda: line.reconcile(pool.pk, make.fence),
            _extending(holders[3], f"longer-{number}"),
            _leaving(leaver),
            lambda sick=number: report(sick),
            lambda: make.reservation(alice, pool, duration="30m"),
        )
        assert [each for each in outcome if isinstance(each, Exception)] == []
        assert invariants.violations() == []
        clock.advance("1m")
    assert races.deadlocks() == deadlocks
    make.look_at_pool(pool)
    well = Device.objects.filter(healthy=True).values_list("pk", flat=True)
    assert bookings.free_between(well, **supply.window(hours=0.5)) == []
    assert Reservation.objects.filter(state="pending").exists()
    assert invariants.violations() == []


def _extending(holder: Reservation, key: str) -> Callable[[], object]:
    alice = cast.caller("alice")
    wanted = ExtendRequest(tenant_id=alice.tenant_id, by="10m")
    return lambda: extension.extend(alice, wanted, reservation_id=holder.pk, idempotency_key=key)


def _leaving(holder: Reservation) -> Callable[[], object]:
    return lambda: ending.release(cast.caller("alice"), reservation_id=holder.pk)
