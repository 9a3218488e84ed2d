"""Changes of what decides whether a node takes work (C13); races are in tests/concurrency."""

from datetime import timedelta

import pytest

from bettercompute import clock as clock_module
from bettercompute import errors
from bettercompute.coordination.models import WorkItem
from nodes import assignments, eligibility
from nodes.assignments import PlannedAssignment
from nodes.models import Node
from outbox.models import Event
from tests.support import supply

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C13")]


def _woken() -> set[tuple[str, str]]:
    return set(WorkItem.objects.values_list("kind", "key"))


@pytest.fixture
def node() -> Node:
    """A node with one GPU, assigned to rsv_here; nothing queued yet."""
    made = supply.node(gpus=1)
    planned = PlannedAssignment(
        allocation_id="alloc_a",
        owner_key="rsv_here",
        node_id=made.pk,
        device_ids=supply.devices(made),
        until=clock_module.now() + timedelta(hours=1),
    )
    assignments.plan([planned])
    WorkItem.objects.all().delete()
    return made


def test_lock_answers_what_is_true_now(node: Node) -> None:
    eligibility.set_system_labels(node.pk, {"bc.dev/cap.devices.limits": "true"})
    eligibility.taint(node.pk, [{"key": "maintenance"}])
    device_ids = supply.devices(node)
    locked = eligibility.lock(node_ids=[node.pk, "node_none"], device_ids=device_ids)
    found = locked.nodes[node.pk]
    assert found.eligible
    assert found.system_labels == {"bc.dev/cap.devices.limits": "true"}
    assert found.taints == ({"key": "maintenance", "effect": "NoSchedule"},)
    assert locked.devices[device_ids[0]].eligible
    assert "node_none" not in locked.nodes


def test_locking_takes_two_statements_for_any_number_of_nodes(
    django_assert_num_queries: object,
) -> None:
    nodes = [supply.node(gpus=1) for _ in range(4)]
    device_ids = [device for each in nodes for device in supply.devices(each)]
    with django_assert_num_queries(2):  # type: ignore[operator]
        eligibility.lock(node_ids=[each.pk for each in nodes], device_ids=device_ids)


def test_a_cordon_is_one_version_one_event_and_wakes_who_is_there(node: Node) -> None:
    assert eligibility.cordon(node.pk) == 2
    assert eligibility.cordon(node.pk) == 2, "the second changes nothing"
    locked = eligibility.lock(node_ids=[node.pk], device_ids=[])
    assert not locked.nodes[node.pk].eligible
    assert Event.objects.filter(type="node.cordoned", subject=f"node/{node.pk}").count() == 1
    assert _woken() == {("reservation", "rsv_here")}


def test_an_uncordon_also_wakes_those_who_wait_for_the_pool(node: Node) -> None:
    eligibility.cordon(node.pk)
    WorkItem.objects.all().delete()
    eligibility.uncordon(node.pk)
    assert _woken() == {("reservation", "rsv_here"), ("pool", node.pool_id)}


def test_a_stale_if_match_changes_nothing(node: Node) -> None:
    eligibility.cordon(node.pk)
    with pytest.raises(errors.PreconditionFailed) as refused:
        eligibility.uncordon(node.pk, if_match=frozenset({1}))
    assert refused.value.details["version"] == 2
    node.refresh_from_db()
    assert node.cordoned


def test_a_node_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(errors.NotFound):
        eligibility.cordon("node_none")


def test_an_unreachable_node_is_not_eligible_until_it_is_back(node: Node) -> None:
    assert eligibility.mark_unreachable(node.pk)
    assert not eligibility.mark_unreachable(node.pk)
    assert not eligibility.lock(node_ids=[node.pk], device_ids=[]).nodes[node.pk].eligible
    WorkItem.objects.all().delete()

    assert eligibility.mark_ready(node.pk)
    assert eligibility.lock(node_ids=[node.pk], device_ids=[]).nodes[node.pk].eligible
    assert ("pool", node.pool_id) in _woken()


def test_a_quarantined_device_is_not_eligible(node: Node) -> None:
    (device,) = supply.devices(node)
    assert eligibility.quarantine(device, reason="unbind-timeout")
    assert not eligibility.quarantine(device, reason="unbind-timeout")
    assert not eligibility.lock(node_ids=[], device_ids=[device]).devices[device].eligible
    event = Event.objects.get(type="device.quarantined")
    assert event.data["reason"] == "unbind-timeout"
    assert ("pool", node.pool_id) not in _woken()

    assert eligibility.end_quarantine(device)
    assert eligibility.lock(node_ids=[], device_ids=[device]).devices[device].eligible
    assert ("pool", node.pool_id) in _woken()


@pytest.mark.rule("N5")
@pytest.mark.parametrize(
    "labels",
    [
        {"bc.dev/cap.devices.limits": "true"},
        {"bc.dev/rack": "7"},
        {"": "x"},
        {"rack": "two words"},
        {"rack\x00": "7"},
        {"a" * 64: "7"},
        {"rack": "7" * 64},
        {"-rack": "7"},
        {f"rack-{number}": "7" for number in range(65)},
    ],
    ids=["capability", "ours", "no name", "spaces", "NUL", "long", "long value", "dash", "many"],
)
def test_labels_that_an_operator_may_not_set_are_refused(
    node: Node, labels: dict[str, str]
) -> None:
    with pytest.raises(errors.InvalidInput):
        eligibility.set_labels(node.pk, labels)
    node.refresh_from_db()
    assert (node.labels, node.version) == ({}, 1)


def test_an_operators_label_is_replaced_as_a_whole(node: Node) -> None:
    eligibility.set_labels(node.pk, {"rack": "7", "example.com/row": "B"})
    eligibility.set_labels(node.pk, {"rack": "8"})
    node.refresh_from_db()
    assert node.labels == {"rack": "8"}


@pytest.mark.parametrize(
    "taint",
    [{}, {"key": ""}, {"key": "a", "effect": "Evict"}, {"key": "a", "colour": "red"}],
    ids=["empty", "no key", "unknown effect", "unknown field"],
)
def test_malformed_taints_are_refused(node: Node, taint: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidInput):
        eligibility.taint(node.pk, [taint])
