"""Hand-over of a device from one assignment to the next (R35), on connections of their own."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.db import transaction

from bettercompute import clock as clock_module
from bettercompute.coordination.models import WorkItem
from nodes import assignments, checks, desired
from nodes.assignments import PlannedAssignment
from nodes.models import Assignment, Node, ReportedState
from tests.support import sessions, supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R35")]


def _plan(node: Node, *allocation_ids: str) -> None:
    assignments.plan(
        PlannedAssignment(
            allocation_id=allocation_id,
            owner_key=f"rsv_of_{allocation_id}",
            node_id=node.pk,
            device_ids=supply.devices(node),
            until=clock_module.now() + timedelta(hours=1),
        )
        for allocation_id in allocation_ids
    )


def test_of_two_assignments_for_a_device_wanted_at_once_one_waits() -> None:
    node = supply.node(gpus=1)
    _plan(node, "alloc_a", "alloc_b")
    entered = sessions.race(*(_want(allocation_id) for allocation_id in ("alloc_a", "alloc_b")))
    assert sorted(len(each) for each in entered) == [0, 1]
    assert len(desired.read(node.pk).assignments) == 1
    assert checks.devices_wanted_twice() == []


def _want(allocation_id: str) -> Callable[[], dict[str, datetime]]:
    def step() -> dict[str, datetime]:
        with transaction.atomic():
            return assignments.want([allocation_id])

    return step


def test_who_begins_to_wait_while_the_earlier_is_forgotten_is_still_woken() -> None:
    node = supply.node(gpus=1)
    _plan(node, "alloc_earlier", "alloc_next")
    assignments.want(["alloc_earlier"])
    Assignment.objects.filter(pk="alloc_earlier").update(reported=ReportedState.BOUND)
    assignments.unwant(["alloc_earlier"])
    with sessions.opened("next", "earlier") as (next_one, earlier):
        next_one.begin()
        assert next_one.run(lambda: assignments.want(["alloc_next"])) == {}
        # The node confirms now: the earlier one's reconciler forgets it.
        Assignment.objects.filter(pk="alloc_earlier").update(reported=ReportedState.RELEASED)
        forgetting = earlier.start(_forget)
        forgetting.must_block()
        next_one.commit()
        assert forgetting.result() == {"alloc_earlier"}
    assert WorkItem.objects.filter(kind="reservation", key="rsv_of_alloc_next").exists()
    assert "alloc_next" in assignments.want(["alloc_next"])


def _forget() -> set[str]:
    with transaction.atomic():
        return assignments.forget(["alloc_earlier"])
