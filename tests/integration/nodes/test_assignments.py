"""What a node should hold, from planned to forgotten (R26, R35, N6)."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from bettercompute import clock as clock_module
from bettercompute.coordination.models import WorkItem
from nodes import assignments, desired
from nodes.assignments import PlannedAssignment
from nodes.models import Assignment, Node, ReportedState
from tests.conftest import SimulatedClock
from tests.support import invariants, supply

pytestmark = pytest.mark.django_db


def _plan(node: Node, allocation_id: str, devices: Sequence[str], owner: str = "") -> None:
    until = clock_module.now() + timedelta(hours=1)
    planned = PlannedAssignment(
        allocation_id=allocation_id,
        owner_key=owner or f"rsv_of_{allocation_id}",
        node_id=node.pk,
        device_ids=devices,
        until=until,
        limits={"cpuMillis": 24_000},
    )
    assignments.plan([planned])


def _node_says(allocation_id: str, reported: ReportedState) -> None:
    Assignment.objects.filter(pk=allocation_id).update(reported=reported)


def _in_desired_state(node: Node) -> list[str]:
    return [each.allocation_id for each in desired.read(node.pk).assignments]


@pytest.mark.rule("R26")
def test_a_wanted_assignment_enters_desired_state_with_the_next_generation(
    clock: SimulatedClock,
) -> None:
    node = supply.node(gpus=2)
    devices = supply.devices(node)
    _plan(node, "alloc_a", devices)
    assert desired.read(node.pk) == desired.DesiredState(generation=0, assignments=())

    assert assignments.want(["alloc_a"]) == {"alloc_a": clock.now()}
    state = desired.read(node.pk)
    assert state.generation == desired.generation(node.pk) == 1
    assert [each.to_wire() for each in state.assignments] == [
        {
            "allocationId": "alloc_a",
            "deviceIds": devices,
            "until": clock.now_ms() + 3_600_000,
            "binding": "hold",
            "limits": {"cpuMillis": 24_000},
        }
    ]


@pytest.mark.rule("N6")
def test_wanting_twice_changes_nothing(clock: SimulatedClock) -> None:
    node = supply.node(gpus=1)
    _plan(node, "alloc_a", supply.devices(node))
    first = assignments.want(["alloc_a"])
    clock.advance("1m")
    assert assignments.want(["alloc_a"]) == first
    assert desired.generation(node.pk) == 1


@pytest.mark.rule("R35")
def test_the_next_assignment_waits_until_the_earlier_is_confirmed(clock: SimulatedClock) -> None:
    node = supply.node(gpus=2)
    first, second = supply.devices(node)
    _plan(node, "alloc_earlier", [first])
    assignments.want(["alloc_earlier"])
    _node_says("alloc_earlier", ReportedState.BOUND)
    assignments.unwant(["alloc_earlier"])

    _plan(node, "alloc_next", [first, second])
    assert assignments.want(["alloc_next"]) == {}
    assert _in_desired_state(node) == []
    (report,) = assignments.reports("rsv_of_alloc_next")
    assert report.waiting

    # A node that holds it still cannot be made to forget it.
    assert assignments.forget(["alloc_earlier"]) == set()
    clock.advance("40s")
    _node_says("alloc_earlier", ReportedState.RELEASED)
    assert assignments.forget(["alloc_earlier"]) == {"alloc_earlier"}
    assert WorkItem.objects.filter(kind="reservation", key="rsv_of_alloc_next").exists()

    # Its bind deadline starts now, not when it was first wanted.
    assert assignments.want(["alloc_next"]) == {"alloc_next": clock.now()}
    assert _in_desired_state(node) == ["alloc_next"]


@pytest.mark.rule("R35")
@pytest.mark.parametrize("reported", [ReportedState.RELEASED, ReportedState.FAILED])
def test_an_earlier_assignment_that_the_node_let_go_blocks_nobody(reported: ReportedState) -> None:
    node = supply.node(gpus=1)
    devices = supply.devices(node)
    _plan(node, "alloc_earlier", devices)
    assignments.want(["alloc_earlier"])
    _node_says("alloc_earlier", reported)
    assignments.unwant(["alloc_earlier"])
    _plan(node, "alloc_next", devices)
    assert "alloc_next" in assignments.want(["alloc_next"])


@pytest.mark.rule("R35")
@pytest.mark.parametrize("reported", [ReportedState.RELEASED, ReportedState.FAILED])
def test_an_earlier_assignment_that_is_still_wanted_keeps_the_next_out(
    reported: ReportedState,
) -> None:
    """Its node let go, but its owner has not been told yet: the agent may bind it again."""
    node = supply.node(gpus=1)
    devices = supply.devices(node)
    _plan(node, "alloc_earlier", devices)
    assignments.want(["alloc_earlier"])
    _node_says("alloc_earlier", reported)
    _plan(node, "alloc_next", devices)

    assert assignments.want(["alloc_next"]) == {}
    assert _in_desired_state(node) == ["alloc_earlier"]
    assert assignments.earlier_left_at("rsv_of_alloc_next") is None
    assert invariants.violations() == []

    assignments.unwant(["alloc_earlier"])
    assert assignments.forget(["alloc_earlier"]) == {"alloc_earlier"}
    assert WorkItem.objects.filter(kind="reservation", key="rsv_of_alloc_next").exists()
    assert "alloc_next" in assignments.want(["alloc_next"])


@pytest.mark.rule("R35")
def test_a_silent_node_may_still_hold_what_it_was_told() -> None:
    node = supply.node(gpus=1)
    devices = supply.devices(node)
    _plan(node, "alloc_earlier", devices)
    assignments.want(["alloc_earlier"])
    assignments.unwant(["alloc_earlier"])  # no report ever came: it may have bound it
    _plan(node, "alloc_next", devices)
    assert assignments.want(["alloc_next"]) == {}


def test_what_was_only_planned_blocks_nobody_and_is_forgotten_at_once() -> None:
    node = supply.node(gpus=1)
    devices = supply.devices(node)
    _plan(node, "alloc_future", devices)
    _plan(node, "alloc_now", devices)
    assert "alloc_now" in assignments.want(["alloc_now"])
    assert assignments.forget(["alloc_future"]) == {"alloc_future"}


def test_another_device_of_the_node_does_not_wait() -> None:
    node = supply.node(gpus=2)
    first, second = supply.devices(node)
    for allocation_id, device in (("alloc_a", first), ("alloc_b", second)):
        _plan(node, allocation_id, [device])
    assert set(assignments.want(["alloc_a", "alloc_b"])) == {"alloc_a", "alloc_b"}
    assert desired.generation(node.pk) == 1, "one change of the node, however many assignments"


def test_unwanting_takes_it_out_and_repeating_it_changes_nothing() -> None:
    node = supply.node(gpus=1)
    _plan(node, "alloc_a", supply.devices(node))
    assignments.want(["alloc_a"])
    assignments.unwant(["alloc_a"])
    assignments.unwant(["alloc_a"])
    assert _in_desired_state(node) == []
    assert desired.generation(node.pk) == 2


def test_an_operator_may_forget_what_a_dead_node_never_confirms() -> None:
    node = supply.node(gpus=1)
    _plan(node, "alloc_a", supply.devices(node))
    assignments.want(["alloc_a"])
    assignments.unwant(["alloc_a"])
    assert assignments.forget(["alloc_a"], even_unconfirmed=True) == {"alloc_a"}


def test_reports_answer_what_the_node_said_as_received() -> None:
    node = supply.node(gpus=1)
    _plan(node, "alloc_a", supply.devices(node), owner="rsv_a")
    Assignment.objects.filter(pk="alloc_a").update(
        reported=ReportedState.BOUND, report={"cdiDevices": ["bcd.dev/gpu=0"]}, bound_sig=b"\x00s"
    )
    (report,) = assignments.reports("rsv_a")
    assert report.report == {"cdiDevices": ["bcd.dev/gpu=0"]}
    assert report.bound_sig == b"\x00s"
    assert report.device_ids == tuple(supply.devices(node))
    assert assignments.reports("rsv_other") == []
