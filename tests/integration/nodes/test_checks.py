"""The self-check finds what must never be (C39): each check against damage made on purpose."""

from datetime import timedelta

import pytest
from django.db import connection

from bettercompute import clock as clock_module
from nodes import assignments, bookings, checks, desired, resources
from nodes.assignments import PlannedAssignment
from nodes.models import Assignment, Node, NodeResource
from tests.conftest import SimulatedClock
from tests.support import supply

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C39")]


def _run(statement: str, *parameters: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def _drop(statement: str) -> None:
    # Django's foreign keys are deferred, and a table with checks still to do cannot be altered.
    _run("SET CONSTRAINTS ALL IMMEDIATE")
    _run(statement)


def _found() -> set[str]:
    alive = {"gateways.alive"}  # no process runs behind these tests
    return {finding.check for check in checks.ALL for finding in check()} - alive


@pytest.fixture
def node() -> Node:
    """A node with one placed allocation: nothing wrong."""
    made = supply.node(gpus=2)
    (first, _), window = supply.devices(made), supply.window()
    planned = PlannedAssignment("alloc_a", "rsv_a", made.pk, [first], window["end"])
    assignments.plan([planned])
    bookings.book(allocation_id="alloc_a", device_ids=[first], **window)
    resources.book(node_amounts=[(made.pk, "alloc_a", {"vcpu": 24})], **window)
    return made


def test_a_healthy_database_has_nothing_to_find(node: Node) -> None:
    assert _found() == set()


def test_a_device_booked_twice_is_found(node: Node) -> None:
    _drop("ALTER TABLE device_bookings DROP CONSTRAINT booking_no_overlap")
    device = supply.devices(node)[0]
    window = supply.window(timedelta(minutes=30))
    bookings.book(allocation_id="cmd_other", device_ids=[device], **window)
    assert "bookings.overlap" in _found()


def test_an_atom_bookable_beside_its_gpu_is_found(node: Node) -> None:
    _drop("ALTER TABLE devices DROP CONSTRAINT device_bookable_in_gpus_mode")
    _run("UPDATE devices SET mode = 'mig' WHERE id = %s", supply.devices(node)[0])
    assert "devices.atom-rule" in _found()


@pytest.mark.rule("C12")
@pytest.mark.parametrize("allocated", [23, 25], ids=["too little", "too much"])
def test_a_count_that_is_not_the_peak_is_found(node: Node, allocated: int) -> None:
    NodeResource.objects.filter(node=node, resource="vcpu").update(allocated=allocated)
    assert _found() == {"resources.allocated"}


@pytest.mark.rule("C12")
def test_a_booking_that_is_over_and_not_ended_yet_is_no_miscount(
    clock: SimulatedClock, node: Node
) -> None:
    clock.advance("2h")
    assert _found() == set()


def test_a_booking_without_an_assignment_is_found(node: Node) -> None:
    Assignment.objects.all().delete()
    assert _found() == {"bookings.of-nobody"}


def test_a_booking_of_a_command_needs_no_assignment(node: Node) -> None:
    device = supply.devices(node)[1]
    bookings.book(allocation_id="cmd_change", device_ids=[device], **supply.window())
    assert _found() == set()


@pytest.mark.rule("R35")
def test_a_device_wanted_for_two_is_found(node: Node) -> None:
    until = clock_module.now() + timedelta(hours=1)
    device = supply.devices(node)[0]
    assignments.plan([PlannedAssignment("alloc_b", "rsv_b", node.pk, [device], until)])
    Assignment.objects.update(wanted=True, entered_at=clock_module.now())
    assert len(desired.read(node.pk).assignments) == 2
    assert _found() == {"assignments.twice"}
