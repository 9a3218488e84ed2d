"""A node that does not let go in time: its devices are quarantined (R35)."""

from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from django.db import transaction

from bettercompute import clock as clock_module
from bettercompute.coordination.models import WorkItem
from bettercompute.coordination.runner import At, Done
from nodes import assignments, conditions, reconciler
from nodes.assignments import PlannedAssignment
from nodes.conditions import Condition, Why
from nodes.models import Assignment, Device, Node, ReportedState
from outbox.models import Event
from tests.conftest import SimulatedClock
from tests.support import supply

pytestmark = [pytest.mark.django_db, pytest.mark.rule("R35")]


def _fence() -> AbstractContextManager[None]:
    return transaction.atomic()


def _quarantined(node: Node) -> list[str]:
    return list(Device.objects.filter(node=node, quarantined=True).values_list("pk", flat=True))


@pytest.fixture
def node(clock: SimulatedClock) -> Node:
    """A node of two GPUs that holds the first for an allocation nobody wants any more."""
    made = supply.node(gpus=2)
    until = clock_module.now() + timedelta(hours=1)
    first = supply.devices(made)[:1]
    assignments.plan([PlannedAssignment("alloc_a", "rsv_a", made.pk, first, until)])
    assignments.want(["alloc_a"])
    Assignment.objects.update(reported=ReportedState.BOUND)
    assignments.unwant(["alloc_a"])
    return made


def test_the_node_is_looked_at_again_at_the_unbind_deadline(
    clock: SimulatedClock, node: Node
) -> None:
    assert WorkItem.objects.filter(kind="node", key=node.pk).exists()
    deadline = clock.now() + timedelta(seconds=reconciler.UNBIND_SECONDS)
    assert reconciler.reconcile(node.pk, _fence) == At(deadline)
    assert _quarantined(node) == []


def test_past_the_deadline_the_device_is_quarantined_visibly_and_once(
    clock: SimulatedClock, node: Node
) -> None:
    clock.advance(timedelta(seconds=reconciler.UNBIND_SECONDS))
    assert reconciler.reconcile(node.pk, _fence) == Done()
    assert reconciler.reconcile(node.pk, _fence) == Done()
    assert _quarantined(node) == supply.devices(node)[:1]
    assert Event.objects.get(type="device.quarantined").data["reason"] == "unbind-timeout"


def test_a_node_that_confirms_in_time_keeps_its_device(clock: SimulatedClock, node: Node) -> None:
    Assignment.objects.update(reported=ReportedState.RELEASED)
    clock.advance("1h")
    assert reconciler.reconcile(node.pk, _fence) == Done()
    assert _quarantined(node) == []


def test_a_silent_node_is_not_late(clock: SimulatedClock, node: Node) -> None:
    conditions.put(Condition.DISCONNECTED, {node.pk: Why()})
    clock.advance("1h")
    again = clock.now() + timedelta(seconds=reconciler.SILENT_RETRY_SECONDS)
    assert reconciler.reconcile(node.pk, _fence) == At(again)
    assert _quarantined(node) == []


@pytest.mark.rule("C27")
def test_the_resync_finds_it_when_the_wake_up_is_lost(node: Node) -> None:
    WorkItem.objects.all().delete()
    assert assignments.nodes_unconfirmed() == [node.pk]
