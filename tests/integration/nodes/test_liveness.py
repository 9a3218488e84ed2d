"""Disconnected is not dead (C36), and an outage of ours is no silence of the nodes (C38)."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection

from bettercompute.coordination import leases
from bettercompute.coordination.models import WorkItem
from nodes import assignments, hearing, liveness
from nodes.assignments import PlannedAssignment
from nodes.models import GatewayWatch, Node, NodeCondition, NodeSession
from outbox.models import Event
from tests.conftest import SimulatedClock
from tests.support import sessions, supply
from tests.support.silence import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(clock: SimulatedClock) -> World:
    """Two gateways that beat, and one node whose agent knows both and talks to the first."""
    made = World()
    made.gateway("a")
    made.gateway("b")
    made.agent(supply.node(gpus=1), "a", "b")
    made.run(20)
    assert made.condition(made.agents[0]) == "Connected"
    return made


def events(node: Node) -> list[str]:
    found = Event.objects.filter(subject=f"node/{node.pk}", type__startswith="node.")
    return [
        kind.removeprefix("node.")
        for kind in found.order_by("seq").values_list("type", flat=True)
        if kind not in {"node.registered", "node.inventory-changed"}
    ]


# --- the table of C36 and C38 ---------------------------------------------------------------------


def silent(world: World, seconds: int) -> None:
    world.agents[0].talks = False
    # What it said last was in the second of its last call.
    world.run(seconds - (world.second - world.agents[0].spoke_at))
    world.agents[0].talks = seconds == 0


def silent_then_back(world: World, seconds: int) -> None:
    silent(world, seconds)
    world.agents[0].talks = True
    world.run(10)


def database_gone(world: World, seconds: int) -> None:
    world.database_up = False
    world.run(seconds)
    world.database_up = True


def database_gone_and_back(world: World, seconds: int) -> None:
    database_gone(world, seconds)
    world.run(10)


def database_gone_and_node_too(world: World, seconds: int) -> None:
    world.agents[0].talks = False
    database_gone_and_back(world, seconds)


def all_gateways_dead(world: World, seconds: int) -> None:
    for gateway in world.gateways.values():
        gateway.alive = False
    world.run(seconds)


def all_gateways_dead_and_new_ones(world: World, seconds: int) -> None:
    all_gateways_dead(world, seconds)
    world.gateway("a")
    world.gateway("b")
    world.run(15)


def its_gateway_dead(world: World, seconds: int) -> None:
    world.gateways["a"].alive = False
    world.run(seconds)


def its_gateway_dead_and_node_too(world: World, seconds: int) -> None:
    world.agents[0].talks = False
    its_gateway_dead(world, seconds)


def its_gateway_stopped_cleanly(world: World, seconds: int) -> None:
    name = f"gateway:{world.gateways['a'].id}"
    held = leases.take(name, ttl_seconds=20, owner=world.gateways["a"].id)
    assert held is not None
    leases.give_up(held)
    its_gateway_dead(world, seconds)


def its_gateway_cut_off(world: World, seconds: int) -> None:
    world.gateways["a"].connected = False
    world.run(seconds)


def its_gateway_frozen(world: World, seconds: int) -> None:
    """A process that is stopped: neither hears nor tells, and goes on with what it knew."""
    world.agents[0].gateways = ["a"]
    frozen = world.gateways["a"]
    frozen.alive = False
    world.run(seconds)
    frozen.alive = True
    world.run(10)


def ticks_far_apart(world: World, seconds: int) -> None:
    world.tick_every = 40
    silent(world, seconds)
    world.run(40)  # the tick behind it


def ticks_far_apart_and_talking(world: World, seconds: int) -> None:
    world.tick_every = 40
    world.run(seconds + 40)


def no_ticks_across_an_outage(world: World, seconds: int) -> None:
    """The ticks come back only when the gateways have beaten for a while."""
    world.tick_every = None
    database_gone(world, seconds)
    world.run(30)
    world.tick()


def database_clock_steps_on(world: World, seconds: int) -> None:
    world.step += timedelta(seconds=seconds)
    world.run(10)


def database_clock_steps_back(world: World, seconds: int) -> None:
    world.step -= timedelta(seconds=seconds)
    world.run(10)


@pytest.mark.rule("C36")
@pytest.mark.rule("C38")
@pytest.mark.parametrize(
    ("happens", "seconds", "expected"),
    [
        (silent, 0, "Connected"),
        (silent, 10, "Connected"),
        (silent, 14, "Connected"),
        (silent, 20, "Disconnected"),
        (silent, 299, "Disconnected"),
        (silent, 305, "Unreachable"),
        (silent_then_back, 10, "Connected"),
        (silent_then_back, 20, "Connected"),
        (silent_then_back, 360, "Connected"),
        (database_gone, 400, "Connected"),
        (database_gone_and_back, 20, "Connected"),
        (database_gone_and_back, 30, "Connected"),
        (database_gone_and_back, 1_200, "Connected"),
        (database_gone_and_node_too, 1_200, "Connected"),
        (all_gateways_dead, 1_200, "Connected"),
        (all_gateways_dead_and_new_ones, 1_200, "Connected"),
        (all_gateways_dead_and_new_ones, 12, "Connected"),
        (its_gateway_dead, 30, "Connected"),
        (its_gateway_dead, 400, "Connected"),
        (its_gateway_stopped_cleanly, 400, "Connected"),
        (its_gateway_dead_and_node_too, 60, "Connected"),
        (its_gateway_dead_and_node_too, 120, "Disconnected"),
        (its_gateway_dead_and_node_too, 400, "Unreachable"),
        (its_gateway_cut_off, 30, "Connected"),
        (its_gateway_cut_off, 420, "Connected"),
        (its_gateway_frozen, 70, "Connected"),
        (its_gateway_frozen, 300, "Connected"),
        (ticks_far_apart, 300, "Unreachable"),
        (ticks_far_apart_and_talking, 320, "Connected"),
        (no_ticks_across_an_outage, 1_200, "Connected"),
        (database_clock_steps_on, 3_600, "Connected"),
        (database_clock_steps_back, 3_600, "Connected"),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_what_becomes_of_a_node(
    world: World, happens: Callable[[World, int], None], seconds: int, expected: str
) -> None:
    happens(world, seconds)
    assert world.condition(world.agents[0]) == expected
    world.agents[0].node.refresh_from_db()
    is_unreachable = world.agents[0].node.state == "unreachable"
    assert is_unreachable == (expected == "Unreachable"), "only Unreachable is not eligible"


@pytest.mark.rule("C38")
def test_an_outage_does_not_make_a_dead_node_look_alive(world: World) -> None:
    silent(world, 310)
    database_gone_and_back(world, 1_200)
    assert world.condition(world.agents[0]) == "Unreachable"
    world.run(60)
    assert world.condition(world.agents[0]) == "Unreachable", "better only by contact"


@pytest.mark.rule("C38")
def test_after_an_outage_silence_counts_from_the_recovery(world: World) -> None:
    database_gone_and_node_too(world, 1_200)
    world.run(20)
    assert world.condition(world.agents[0]) == "Disconnected"
    world.run(260)
    assert world.condition(world.agents[0]) == "Disconnected"
    world.run(40)
    assert world.condition(world.agents[0]) == "Unreachable"


@pytest.mark.rule("C38")
def test_a_node_that_moved_late_is_connected_from_its_first_call(world: World) -> None:
    world.gateways["a"].alive = False
    world.agents[0].talks = False  # its network is away as well, until it has found the other
    world.run(340)
    assert world.condition(world.agents[0]) == "Disconnected"
    world.tick_every = None
    world.agents[0].talks = True
    while world.agents[0].spoke_at != world.second:
        world.run(1)
    world.tick()  # before the new gateway has flushed or beaten
    assert world.condition(world.agents[0]) != "Unreachable"
    world.run(5)
    world.tick()
    assert world.condition(world.agents[0]) == "Connected"


@pytest.mark.rule("C38")
def test_a_late_flush_does_not_take_a_node_back_to_a_gateway_it_has_left(world: World) -> None:
    (agent,) = world.agents
    world.gateways["a"].connected = False
    world.run(90)
    assert NodeSession.objects.get().gateway_id == world.gateways["b"].id
    world.gateways["a"].connected = True
    world.run(5)
    session = NodeSession.objects.get()
    assert session.gateway_id == world.gateways["b"].id
    assert world.condition(agent) == "Connected"


# --- what follows ---------------------------------------------------------------------------------


@pytest.mark.rule("C36")
def test_a_silent_node_goes_through_every_condition_once(world: World) -> None:
    silent(world, 330)
    assert events(world.agents[0].node) == ["connected", "disconnected", "unreachable"]


@pytest.mark.rule("C36")
def test_a_node_that_comes_back_is_connected_and_pending_work_resumes(world: World) -> None:
    silent(world, 310)
    WorkItem.objects.all().delete()
    world.agents[0].talks = True
    world.run(10)
    node = world.agents[0].node
    node.refresh_from_db()
    assert node.state == "ready"
    assert WorkItem.objects.filter(kind="pool", key=node.pool_id).exists()
    assert events(node) == ["connected", "disconnected", "unreachable", "connected"]


@pytest.mark.rule("C36")
def test_an_unreachable_node_wakes_its_reservations_and_they_keep_everything(
    clock: SimulatedClock, world: World
) -> None:
    node = world.agents[0].node
    planned = PlannedAssignment(
        allocation_id="alloc_a",
        owner_key="rsv_a",
        node_id=node.pk,
        device_ids=supply.devices(node),
        until=clock.now() + timedelta(hours=1),
    )
    assignments.plan([planned])
    assignments.want(["alloc_a"])
    silent(world, 310)
    assert WorkItem.objects.filter(kind="reservation", key="rsv_a").exists()
    (report,) = assignments.reports("rsv_a")
    assert report.wanted


@pytest.mark.rule("C36")
def test_a_node_that_never_connected_is_not_judged(world: World) -> None:
    node = supply.node(gpus=1)
    world.run(320)
    assert not NodeCondition.objects.filter(node=node).exists()
    node.refresh_from_db()
    assert node.state == "ready"


@pytest.mark.rule("C36")
def test_judging_again_changes_nothing(world: World) -> None:
    silent(world, 20)
    assert liveness.judge() == 0


@pytest.mark.rule("C38")
def test_gateways_long_gone_are_forgotten_but_the_last_that_beat_is_not(world: World) -> None:
    world.gateways["b"].alive = False
    world.run(10)
    world.step += timedelta(days=2)
    hearing.forget()
    assert GatewayWatch.objects.count() == 2, "an outage of two days"
    world.run(5)
    assert list(GatewayWatch.objects.values_list("gateway_id", flat=True)) == [
        world.gateways["a"].id
    ]


# --- at the same moment ---------------------------------------------------------------------------


@pytest.mark.rule("C36")
@pytest.mark.django_db(transaction=True)
def test_a_judge_that_comes_too_late_does_not_call_a_node_silent_that_has_spoken(
    clock: SimulatedClock, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.tick_every = None
    silent(world, 310)
    (agent,) = world.agents
    look = liveness._misjudged
    looked: list[object] = []

    def speaks_meanwhile(node_ids: list[str] | None) -> list[liveness.Misjudged]:
        found = look(node_ids)
        if not looked:
            looked.append(found)
            agent.talks = True
            world.run(10)
        return found

    monkeypatch.setattr(liveness, "_misjudged", speaks_meanwhile)
    world.tick()
    monkeypatch.undo()
    assert looked[0], "it was silent when the judge looked"
    agent.node.refresh_from_db()
    assert agent.node.state == "ready"
    assert "unreachable" not in events(agent.node)
    world.tick()
    assert world.condition(agent) == "Connected"


@pytest.mark.rule("C36")
@pytest.mark.django_db(transaction=True)
def test_nobody_is_heard_of_while_a_judgement_is_written(
    clock: SimulatedClock, world: World
) -> None:
    world.tick_every = None
    silent(world, 310)
    (agent,) = world.agents
    with sessions.opened("judge", "gateway") as (judge, gateway):
        judge.begin()
        judge.run(lambda: liveness._settle_alone(agent.node.pk))
        agent.talks = True
        flushing = gateway.start(lambda: world.run(5))
        flushing.must_block()
        judge.commit()
        flushing.result()
    world.tick()
    assert world.condition(agent) == "Connected"
    assert events(agent.node)[-2:] == ["unreachable", "connected"]
    assert not connection.in_atomic_block
