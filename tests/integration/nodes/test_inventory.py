"""A reported inventory becomes devices and resources (N9)."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from django.db import transaction

from bettercompute import clock as clock_module
from bettercompute.agent import hosts
from bettercompute.agent.inventory import Health, HostInventory, MigMode
from bettercompute.agent.vendors import nvidia
from bettercompute.coordination.models import WorkItem
from bettercompute.coordination.runner import Done
from nodes import bookings, inventory, layouts, registration, resources
from nodes.models import Device, Node, NodeCondition, NodeInventory, NodeResource
from outbox.models import Event
from tests.support import supply

pytestmark = [pytest.mark.django_db, pytest.mark.rule("N9")]

CAPTURES = Path(__file__).parents[2] / "data" / "nvidia-smi"
SEVEN_SMALL = [layouts.Placement(start, "1g.10gb", 1) for start in range(7)]


def _fence() -> AbstractContextManager[None]:
    return transaction.atomic()


def _report(node: Node, host: HostInventory, *, seq: int = 1) -> None:
    """What the gateway writes when an inventory arrives."""
    NodeInventory.objects.update_or_create(
        node=node,
        defaults={
            "seq": seq,
            "body": host.to_wire(),
            "received_at": clock_module.now(),
            "applied_at": None,
        },
    )


def _with_gpu(host: HostInventory, index: int, **update: object) -> HostInventory:
    gpus = [gpu.model_copy(update=update) if gpu.index == index else gpu for gpu in host.gpus]
    return host.model_copy(update={"gpus": tuple(gpus)})


def test_a_reported_host_becomes_atoms_and_amounts_less_the_reserve() -> None:
    node = supply.node(gpus=8, vcpu=194, memory_gib=2048)
    devices = Device.objects.filter(node=node)
    assert devices.count() == devices.filter(bookable_mode="whole", milli=1000).count() == 8
    assert len(set(devices.values_list("nvlink_group", flat=True))) == 1
    amounts = dict(NodeResource.objects.filter(node=node).values_list("resource", "allocatable"))
    assert amounts == {"vcpu": 192, "memoryGiB": 2048}


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.[xt][mx][lt]")), ids=lambda p: p.name)
def test_every_real_capture_becomes_devices(path: Path) -> None:
    host = nvidia.read_file(path)
    node = registration.register(supply.pool().pk, "captured")
    inventory.apply(node.pk, host)
    gpus = Device.objects.filter(node=node, kind="gpu")
    assert set(gpus.values_list("pk", flat=True)) == {gpu.uuid for gpu in host.gpus}
    for gpu in host.gpus:
        atoms = Device.objects.filter(gpu_id=gpu.uuid, bookable_mode__isnull=False)
        expected = [each.atom_id for each in gpu.mig_instances] or [gpu.uuid]
        assert sorted(atoms.values_list("pk", flat=True)) == sorted(expected)


def test_huge_pages_are_not_sold_again_as_memory() -> None:
    node = registration.register(supply.pool().pk, "huge")
    host = supply.host("huge", memory_gib=1000).model_copy(
        update={"hugepages_1gi": 100, "hugepages_2mi": 513}
    )
    inventory.apply(node.pk, host)
    amounts = dict(NodeResource.objects.filter(node=node).values_list("resource", "allocatable"))
    assert amounts["memoryGiB"] == 1000 - 100 - 2
    assert (amounts["hugepages1Gi"], amounts["hugepages2Mi"]) == (100, 513)


def test_the_same_inventory_again_writes_nothing_and_tells_nobody() -> None:
    node = supply.node(gpus=2)
    host = supply.host(node.name, gpus=2)
    before = list(Device.objects.order_by("pk").values())
    events = Event.objects.count()
    inventory.apply(node.pk, host)
    assert list(Device.objects.order_by("pk").values()) == before
    assert Event.objects.count() == events


@pytest.mark.rule("C10")
def test_a_mig_card_exposes_its_instances_and_not_itself() -> None:
    node = registration.register(supply.pool().pk, "mig")
    host = hosts.with_mig_layout(supply.host("mig", gpus=1), SEVEN_SMALL)
    inventory.apply(node.pk, host)
    (card,) = Device.objects.filter(node=node, kind="gpu")
    assert (card.mode, card.bookable_mode) == ("mig", None)
    atoms = Device.objects.filter(gpu=card, kind="mig")
    assert atoms.count() == 7
    assert set(atoms.values_list("bookable_mode", "milli", "profile")) == {("mig", 142, "1g.10gb")}
    assert f"{card.pk}/m3-1g.10gb" in set(atoms.values_list("pk", flat=True))


@pytest.mark.rule("C10")
def test_a_card_that_was_cut_outside_of_us_changes_its_mode_when_nothing_is_booked() -> None:
    node = supply.node(gpus=1)
    whole = supply.host(node.name, gpus=1)
    inventory.apply(node.pk, hosts.with_mig_layout(whole, SEVEN_SMALL))
    assert Device.objects.filter(node=node, bookable_mode="mig").count() == 7
    assert not Device.objects.filter(node=node, bookable_mode="whole").exists()

    inventory.apply(node.pk, whole)
    (atom,) = Device.objects.filter(node=node, bookable_mode__isnull=False)
    assert (atom.kind, atom.healthy) == ("gpu", True)
    assert set(Device.objects.filter(kind="mig").values_list("healthy", flat=True)) == {False}


@pytest.mark.rule("C10")
def test_a_card_that_was_cut_while_booked_keeps_its_mode_and_is_unhealthy() -> None:
    node = supply.node(gpus=2)
    booked, free = supply.devices(node)
    bookings.book(allocation_id="alloc_a", device_ids=[booked], **supply.window())
    cut = hosts.with_mig_layout(supply.host(node.name, gpus=2), SEVEN_SMALL)
    inventory.apply(node.pk, cut)

    card = Device.objects.get(pk=booked)
    assert (card.mode, card.bookable_mode, card.healthy) == ("whole", "whole", False)
    assert "while booked" in card.health_reason
    assert not Device.objects.filter(gpu=booked, kind="mig").exists()
    assert Device.objects.filter(gpu=free, bookable_mode="mig").count() == 7


def test_a_card_that_waits_for_a_reset_is_not_healthy() -> None:
    node = supply.node(gpus=1)
    host = _with_gpu(supply.host(node.name, gpus=1), 0, mig=MigMode.PENDING)
    inventory.apply(node.pk, host)
    card = Device.objects.get(node=node)
    assert not card.healthy
    assert "reset required" in card.health_reason


def test_a_broken_card_takes_nothing_but_itself_down_and_comes_back() -> None:
    node = supply.node(gpus=2)
    host = supply.host(node.name, gpus=2)
    WorkItem.objects.all().delete()
    broken = _with_gpu(host, 0, health=Health.UNHEALTHY, health_reason="GPU is lost")
    inventory.apply(node.pk, broken)
    first, second = Device.objects.filter(node=node).order_by("index")
    assert (first.healthy, first.health_reason, second.healthy) == (False, "GPU is lost", True)
    assert Event.objects.get(type="device.unhealthy").data["reason"] == "GPU is lost"
    assert not WorkItem.objects.filter(kind="pool").exists()

    inventory.apply(node.pk, host)
    assert Event.objects.filter(type="device.healthy", subject=f"device/{first.pk}").exists()
    assert WorkItem.objects.filter(kind="pool", key=node.pool_id).exists()


def test_a_card_that_is_no_longer_reported_stays_as_an_unhealthy_row() -> None:
    node = supply.node(gpus=2)
    gone = supply.devices(node)[1]
    bookings.book(allocation_id="alloc_a", device_ids=[gone], **supply.window())
    host = supply.host(node.name, gpus=2)
    inventory.apply(node.pk, host.model_copy(update={"gpus": host.gpus[:1]}))
    row = Device.objects.get(pk=gone)
    assert (row.healthy, row.health_reason) == (False, "not reported")


def test_a_driver_that_counts_differently_keeps_identities() -> None:
    node = supply.node(gpus=2)
    first, second = supply.devices(node)
    host = supply.host(node.name, gpus=2)
    swapped = [gpu.model_copy(update={"index": 1 - gpu.index}) for gpu in host.gpus]
    inventory.apply(node.pk, host.model_copy(update={"gpus": tuple(swapped)}))
    assert supply.devices(node) == [second, first]


def test_a_card_of_another_node_is_refused_with_the_whole_inventory() -> None:
    owner = supply.node(gpus=1)
    other = registration.register(supply.pool().pk, "copy")
    host = supply.host("copy", gpus=2)
    stolen = host.gpus[1].model_copy(update={"uuid": supply.devices(owner)[0], "nvlinks": ()})
    host = host.model_copy(update={"gpus": (host.gpus[0], stolen)})
    with pytest.raises(inventory.DuplicateIdentity) as refused:
        inventory.apply(other.pk, host)
    assert refused.value.details["nodeId"] == owner.pk
    assert not Device.objects.filter(node=other).exists()


def test_the_two_captures_that_share_a_uuid_cannot_both_be_nodes() -> None:
    readings = {path: nvidia.read_file(path) for path in CAPTURES.glob("*.xml")}
    holders: dict[str, list[HostInventory]] = {}
    for host in readings.values():
        for gpu in host.gpus:
            holders.setdefault(gpu.uuid, []).append(host)
    first, second = next(found for found in holders.values() if len(found) == 2)
    pool = supply.pool()
    inventory.apply(registration.register(pool.pk, "one").pk, first)
    with pytest.raises(inventory.DuplicateIdentity):
        inventory.apply(registration.register(pool.pk, "two").pk, second)


def test_reconciling_applies_the_last_report_once() -> None:
    node = registration.register(supply.pool().pk, "reported")
    _report(node, supply.host("reported", gpus=4))
    assert inventory.unapplied() == [node.pk]
    assert inventory.reconcile(node.pk, _fence) == Done()
    assert Device.objects.filter(node=node).count() == 4
    assert inventory.unapplied() == []
    events = Event.objects.count()
    assert inventory.reconcile(node.pk, _fence) == Done()
    assert Event.objects.count() == events


def test_a_refused_report_is_a_condition_that_clears_with_a_good_one() -> None:
    owner = supply.node(gpus=1)
    node = registration.register(supply.pool().pk, "reported")
    _report(node, supply.host(owner.name, gpus=1))
    inventory.reconcile(node.pk, _fence)
    row = NodeInventory.objects.get(node=node)
    assert supply.devices(owner)[0] in row.error
    assert row.applied_at is not None
    condition = NodeCondition.objects.get(node=node)
    assert (condition.type, condition.reason) == ("InventoryRefused", "DuplicateIdentity")
    assert not Device.objects.filter(node=node).exists()

    _report(node, supply.host("reported", gpus=1), seq=2)
    inventory.reconcile(node.pk, _fence)
    assert not NodeCondition.objects.filter(node=node).exists()
    assert Device.objects.filter(node=node).count() == 1


def test_a_report_that_is_no_inventory_is_refused_not_retried_for_ever() -> None:
    node = registration.register(supply.pool().pk, "odd")
    _report(node, HostInventory())
    NodeInventory.objects.update(body={"gpus": 7})
    assert inventory.reconcile(node.pk, _fence) == Done()
    assert NodeCondition.objects.get(node=node).reason == "Unreadable"


def test_the_pools_policy_sets_what_is_kept_for_the_host() -> None:
    pool = supply.pool(hostReserve={"vcpu": 8})
    node = registration.register(pool.pk, "reported")
    _report(node, supply.host("reported", vcpu=100))
    inventory.reconcile(node.pk, _fence)
    assert NodeResource.objects.get(node=node, resource=resources.VCPU).allocatable == 92


@pytest.mark.rule("C12")
def test_a_host_that_lost_memory_under_its_bookings_gets_a_condition() -> None:
    node = supply.node(memory_gib=512)
    claim = [(node.pk, "alloc_a", {"memoryGiB": 512})]
    assert resources.book(node_amounts=claim, **supply.window())
    inventory.apply(node.pk, supply.host(node.name, memory_gib=256))
    condition = NodeCondition.objects.get(node=node)
    assert condition.type == "Overcommitted"
    assert condition.message == "memoryGiB: 512 booked, 256 there"
    assert Event.objects.filter(type="node.overcommitted").count() == 1

    inventory.apply(node.pk, supply.host(node.name, memory_gib=512))
    assert not NodeCondition.objects.filter(node=node).exists()


@pytest.mark.rule("C12")
@pytest.mark.case(25)
def test_the_condition_goes_with_the_booking_that_was_too_much() -> None:
    node = supply.node(memory_gib=512)
    for name, amount in (("alloc_a", 200), ("alloc_b", 200), ("alloc_c", 100)):
        claim = [(node.pk, name, {"memoryGiB": amount, "vcpu": 1})]
        assert resources.book(node_amounts=claim, **supply.window())
    inventory.apply(node.pk, supply.host(node.name, memory_gib=256))
    resources.free(["alloc_a"])
    assert NodeCondition.objects.get(node=node).type == "Overcommitted", "300 of 256"
    resources.free(["alloc_b"])
    assert not NodeCondition.objects.filter(node=node).exists()
