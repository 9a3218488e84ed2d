"""Reservations whose nodes fall silent, return, or cannot be heard for an outage of ours."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import transaction

from bettercompute import wiring
from bettercompute.coordination.runner import Runner
from bettercompute.simulator.fleet import Fleet, Member
from nodes import checks, desired, enrollment
from nodes.models import Assignment, Device, DeviceBooking, Node, ReportedState
from nodes.protocol.signing import NodeKey
from pools.models import Pool, QuotaUsage
from reservations import ending
from reservations.models import Reservation
from tests.conftest import SimulatedClock
from tests.support import agents, cast, make, supply
from tests.support.agents import Bench
from tests.support.silence import World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def work(clock: SimulatedClock) -> Callable[[], int]:
    """A worker; it does all that is due."""
    return Runner(wiring.reconcilers()).drain


def read(reservation: Reservation) -> Reservation:
    return Reservation.objects.get(pk=reservation.pk)


def conditions(reservation: Reservation) -> list[str]:
    return [f"{each['type']}/{each['reason']}" for each in read(reservation).conditions]


def used() -> int:
    return QuotaUsage.objects.get(tenant__slug="acme", resource="gpuMilli").used


def held(reservation: Reservation) -> list[tuple[str, object]]:
    """Its bookings, each with its window."""
    ids = list(reservation.allocations.values_list("id", flat=True))
    return list(
        DeviceBooking.objects.filter(allocation_id__in=ids)
        .order_by("device_id")
        .values_list("device_id", "during")
    )


@pytest.fixture
def world(clock: SimulatedClock) -> World:
    """One gateway, one node of a pool, and its agent."""
    made = World()
    made.gateway("a")
    return made


@pytest.fixture
def pool(world: World) -> Pool:
    made = make.pool(nodes=1, gpus=8)
    world.agent(Node.objects.get(), "a")
    world.run(10)
    return made


# --- disconnected is not dead ---------------------------------------------------------------------


@pytest.mark.rule("C36")
def test_a_reservation_keeps_everything_while_its_node_is_silent_and_until_it_is_back(
    world: World, pool: Pool, work: Callable[[], int]
) -> None:
    alice = cast.caller("alice")
    kept = make.active(alice, pool, gpus=2, duration="8h")
    before, charged = held(kept), used()
    (agent,) = world.agents
    agent.talks = False

    world.run(10)
    work()
    assert world.condition(agent) == "Connected"
    assert conditions(kept) == []

    world.run(10)
    work()
    assert world.condition(agent) == "Disconnected"
    assert conditions(kept) == []
    still = make.reservation(alice, pool)
    assert still.state == "placed", "the last choice, and the only one"
    ending.release(alice, reservation_id=still.pk)

    world.run(340)
    work()
    assert world.condition(agent) == "Unreachable"
    assert conditions(kept) == ["Degraded/NodeUnreachable"]
    waiting = make.reservation(alice, pool, duration="8h")
    assert waiting.state == "pending", "not eligible"
    assert read(kept).state == "active"
    assert held(kept) == before
    assert used() == charged + 1_000, "both are charged, the degraded one as ever"

    agent.talks = True
    world.run(10)
    work()
    assert world.condition(agent) == "Connected"
    assert conditions(kept) == []
    assert read(waiting).state in {"placed", "binding"}, "pending work resumes"
    assert read(kept).state == "active"
    assert held(kept) == before


@pytest.mark.rule("C36")
def test_a_silent_nodes_reservation_ends_at_its_end_and_not_before(
    world: World, pool: Pool, work: Callable[[], int]
) -> None:
    kept = make.active(cast.caller("alice"), pool, gpus=2, duration="1h")
    world.agents[0].talks = False
    world.run(400)
    work()
    ends_at = read(kept).ends_at
    assert ends_at is not None
    world.step += timedelta(minutes=50)  # the gateway's beats have a gap there, too
    world.run(5)
    work()
    assert read(kept).state == "active"
    world.step += timedelta(minutes=10)
    world.run(5)
    work()
    assert [read(kept).state, read(kept).reason] == ["released", "expired"]
    assert read(kept).ends_at == ends_at
    assert used() == 0


# --- an outage of ours is nobody's fault ----------------------------------------------------------


@pytest.mark.rule("C38")
@pytest.mark.rule("R26")
def test_a_bind_deadline_counts_only_time_in_which_the_node_could_report(
    world: World, pool: Pool
) -> None:
    binding = make.look(make.reservation(cast.caller("alice"), pool))
    assert binding.state == "binding"
    world.run(60)
    world.database_up = False
    world.run(1_200)
    world.database_up = True

    # The worker is back before any gateway; then a gateway is, but the journal is still under way.
    world.run(1)
    binding = make.look(binding)
    assert [binding.state, binding.placements_failed] == ["binding", 0]
    world.run(280)
    binding = make.look(binding)
    assert [binding.state, binding.placements_failed] == ["binding", 0]
    make.report(binding, ReportedState.BOUND)
    assert make.look(binding).state == "active"


@pytest.mark.rule("C38")
@pytest.mark.rule("R26")
def test_a_node_that_does_not_bind_after_an_outage_either_loses_it(
    world: World, pool: Pool
) -> None:
    binding = make.look(make.reservation(cast.caller("alice"), pool))
    world.database_up = False
    world.run(1_200)
    world.database_up = True
    world.run(310)
    binding = make.look(binding)
    assert binding.placements_failed == 1
    assert binding.state == "binding", "placed again"


@pytest.mark.rule("C38")
@pytest.mark.rule("R35")
def test_an_unbind_deadline_counts_only_time_in_which_the_node_could_confirm(
    world: World, pool: Pool, work: Callable[[], int]
) -> None:
    alice = cast.caller("alice")
    released = make.active(alice, pool, duration="8h")
    ending.release(alice, reservation_id=released.pk)
    world.run(60)
    world.database_up = False
    world.run(1_200)
    world.database_up = True
    world.run(60)
    work()
    assert not Device.objects.filter(quarantined=True).exists()
    world.run(260)
    work()
    assert Device.objects.filter(quarantined=True).count() == 1, "it had its five minutes"


@pytest.mark.rule("C38")
@pytest.mark.rule("R35")
def test_who_waits_for_an_earlier_holder_is_not_moved_for_an_outage(
    world: World, pool: Pool, clock: SimulatedClock
) -> None:
    alice = cast.caller("alice")
    first = make.active(alice, pool, gpus=8, duration="1h")
    start = read(first).ends_at
    assert start is not None
    second = make.reservation(
        alice, pool, gpus=8, start=int(start.timestamp() * 1_000), duration="2h"
    )
    make.node(pool)  # where it could be moved to
    devices = held(second)
    world.database_up = False
    world.run(1)
    world.step += timedelta(hours=1, minutes=10)
    world.database_up = True
    world.run(10)
    make.look(second)
    make.look(first)
    assert held(make.look(second)) == devices
    make.report(first, ReportedState.RELEASED)
    make.look(first)
    make.look(second)
    allocation = second.allocations.get()
    (wanted,) = desired.read(allocation.node_id).assignments
    assert wanted.allocation_id == allocation.pk


# --- the agent has the last word ------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _fleet(bench: Bench, members: list[Member]) -> AsyncIterator[Fleet]:
    made = Fleet(members, [agents.URL], transport=bench.transport)
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _members(directory: Path) -> list[Member]:
    return [
        Member(
            node_id=node.pk,
            key=NodeKey.generate(),
            inventory=supply.host(node.name),
            enrolment_token=enrollment.create(node_id=node.pk).token,
            directory=directory / node.pk,
        )
        for node in Node.objects.order_by("pk")
    ]


def _look_until(reservation: Reservation, state: str) -> bool:
    return make.look(reservation).state == state


@pytest.mark.rule("C15")
@pytest.mark.rule("R26")
@pytest.mark.case(12)
def test_an_agent_refuses_what_overlaps_and_the_reservation_is_placed_again(
    clock: SimulatedClock, tmp_path: Path
) -> None:
    pool = make.pool(nodes=1, gpus=8)
    alice = cast.caller("alice")
    members = _members(tmp_path)
    first = make.look(make.reservation(alice, pool, gpus=2, duration="8h"))
    second = make.reservation(alice, pool, gpus=2, duration="8h")

    async def scenario(bench: Bench) -> None:
        async with _fleet(bench, members) as running:
            await agents.until(lambda: _look_until(first, "active"))
            # The control plane errs: it tells the node to hold the same devices once more.
            await agents.sync(_want_devices_of, first, second)
            await agents.until(
                lambda: Assignment.objects.filter(reported="failed", owner_key=second.pk).exists()
            )
            assert len(running.daemons[members[0].node_id].holds.read()) == 1
            await agents.until(lambda: _look_until(second, "active"))

    agents.run(scenario)
    refused = second.allocations.get(state="failed")
    assert refused.reason == "overlap"
    second = read(second)
    assert [second.state, second.placements_failed] == ["active", 1]
    bound = second.allocations.get(state="bound")
    assert set(bound.device_ids).isdisjoint(first.allocations.get().device_ids)
    assert read(first).state == "active"
    assert conditions(first) == []
    assert checks.devices_wanted_twice() == []


@transaction.atomic
def _want_devices_of(holder: Reservation, other: Reservation) -> None:
    """Put the holder's devices into desired state for the other, past every guard of ours."""
    assert make.look(other).state == "binding"
    devices = holder.allocations.get().device_ids
    Assignment.objects.filter(owner_key=other.pk).update(device_ids=devices)
