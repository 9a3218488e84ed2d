"""Disconnected is not dead (C36), and an outage of ours is no silence of the nodes (C38)."""

from datetime import timedelta

import pytest

from bettercompute import clock as clock_module
from bettercompute.coordination.models import Heartbeat, Lease, WorkItem
from nodes import assignments, liveness
from nodes.assignments import PlannedAssignment
from nodes.models import Node, NodeCondition, NodeSession
from outbox.models import Event
from tests.conftest import SimulatedClock
from tests.support import supply

pytestmark = pytest.mark.django_db

GATEWAY = "gw-1"


def _beat() -> None:
    now = clock_module.now()
    Heartbeat.objects.update_or_create(
        process="own_gateway", defaults={"role": "gateway", "beaten_at": now}
    )
    Lease.objects.update_or_create(
        name=f"gateway:{GATEWAY}",
        defaults={
            "owner": "own_gateway",
            "epoch": 1,
            "expires_at": now + timedelta(seconds=20),
            "acquired_at": now,
        },
    )


def _heard_of(*nodes: Node, by: str = GATEWAY) -> None:
    now = clock_module.now()
    for node in nodes:
        NodeSession.objects.update_or_create(
            node=node,
            defaults={
                "epoch": 1,
                "token_hash": "",
                "gateway_id": by,
                "connected_at": now,
                "last_seen_at": now,
            },
        )


def _pass(clock: SimulatedClock, seconds: int, *talking: Node) -> None:
    """Let time pass with a gateway that beats, as the 5 s tick sees it."""
    for _ in range(seconds // 5):
        clock.advance("5s")
        _beat()
        _heard_of(*talking)
        liveness.judge()


def _condition(node: Node) -> str:
    return ", ".join(
        NodeCondition.objects.filter(node=node).order_by("type").values_list("type", flat=True)
    )


def _events(node: Node) -> list[str]:
    events = Event.objects.filter(subject=f"node/{node.pk}", type__startswith="node.")
    return [
        kind.removeprefix("node.")
        for kind in events.order_by("seq").values_list("type", flat=True)
        if kind not in {"node.registered", "node.inventory-changed"}
    ]


@pytest.fixture
def node(clock: SimulatedClock) -> Node:
    """A connected node."""
    made = supply.node(gpus=1)
    _beat()
    _heard_of(made)
    liveness.judge()
    return made


@pytest.mark.rule("C36")
def test_a_silent_node_goes_through_every_condition_once(clock: SimulatedClock, node: Node) -> None:
    assert _condition(node) == "Connected"
    _pass(clock, 10)
    assert _condition(node) == "Connected"
    _pass(clock, 5)
    assert _condition(node) == "Disconnected"
    node.refresh_from_db()
    assert node.state == "ready", "disconnected is still eligible"

    _pass(clock, 280)
    assert _condition(node) == "Disconnected"
    _pass(clock, 10)
    assert _condition(node) == "Unreachable"
    node.refresh_from_db()
    assert node.state == "unreachable"
    _pass(clock, 600)
    assert _events(node) == ["connected", "disconnected", "unreachable"]


@pytest.mark.rule("C36")
def test_a_node_that_comes_back_is_connected_and_pending_work_resumes(
    clock: SimulatedClock, node: Node
) -> None:
    _pass(clock, 310)
    WorkItem.objects.all().delete()
    _pass(clock, 5, node)
    assert _condition(node) == "Connected"
    node.refresh_from_db()
    assert node.state == "ready"
    assert WorkItem.objects.filter(kind="pool", key=node.pool_id).exists()
    assert _events(node) == ["connected", "disconnected", "unreachable", "connected"]


@pytest.mark.rule("C36")
def test_an_unreachable_node_wakes_its_reservations_and_they_keep_everything(
    clock: SimulatedClock, node: Node
) -> None:
    planned = PlannedAssignment(
        allocation_id="alloc_a",
        owner_key="rsv_a",
        node_id=node.pk,
        device_ids=supply.devices(node),
        until=clock.now() + timedelta(hours=1),
    )
    assignments.plan([planned])
    assignments.want(["alloc_a"])
    _pass(clock, 310)
    assert WorkItem.objects.filter(kind="reservation", key="rsv_a").exists()
    (report,) = assignments.reports("rsv_a")
    assert report.wanted


@pytest.mark.rule("C36")
def test_a_node_that_never_connected_is_not_judged(clock: SimulatedClock) -> None:
    node = supply.node(gpus=1)
    _pass(clock, 400)
    assert _condition(node) == ""
    node.refresh_from_db()
    assert node.state == "ready"


@pytest.mark.rule("C38")
def test_no_node_is_judged_while_no_gateway_beats(clock: SimulatedClock, node: Node) -> None:
    for _ in range(100):
        clock.advance("5s")
        liveness.judge()
    assert _condition(node) == "Connected"


@pytest.mark.rule("C38")
def test_after_an_outage_silence_counts_from_the_recovery(
    clock: SimulatedClock, node: Node
) -> None:
    clock.advance("20m")  # the database was gone: nobody beat, nobody judged
    _beat()
    liveness.judge()
    assert _condition(node) == "Connected"
    _pass(clock, 10)
    assert _condition(node) == "Connected"
    _pass(clock, 10)
    assert _condition(node) == "Disconnected"
    _pass(clock, 300)
    assert _condition(node) == "Unreachable"


@pytest.mark.rule("C38")
def test_an_outage_does_not_make_a_dead_node_look_alive(clock: SimulatedClock, node: Node) -> None:
    _pass(clock, 310)
    clock.advance("20m")
    _pass(clock, 10)
    assert _condition(node) == "Unreachable", "better only by contact"


@pytest.mark.rule("C38")
def test_a_node_whose_gateway_died_has_time_to_find_another(
    clock: SimulatedClock, node: Node
) -> None:
    _heard_of(node, by="gw-dead")
    Lease.objects.create(
        name="gateway:gw-dead",
        owner="own_dead",
        epoch=1,
        expires_at=clock.now() + timedelta(seconds=20),
        acquired_at=clock.now(),
    )
    _pass(clock, 300)
    # Until its gateway's lease ran out the silence was the node's own.
    assert _condition(node) == "Disconnected"
    _pass(clock, 310)
    assert _condition(node) == "Disconnected"
    _pass(clock, 20)
    assert _condition(node) == "Unreachable"


@pytest.mark.rule("C36")
def test_judging_again_changes_nothing(clock: SimulatedClock, node: Node) -> None:
    _pass(clock, 20)
    assert liveness.judge() == 0
