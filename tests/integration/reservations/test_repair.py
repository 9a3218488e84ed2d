"""The check before a start (R18)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from bettercompute import clock as clocks
from bettercompute.coordination.runner import At
from bettercompute.wire.reservations import ExtendRequest
from nodes import eligibility, health, inventory
from nodes.models import Assignment, DeviceBooking, Node, ResourceBooking
from outbox.models import Event
from pools.models import Pool, QuotaCharge
from reservations import moments, queries, reconciler
from reservations.extending import extension
from reservations.models import Reservation
from tests.support import cast, invariants, make, supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R18")]

HOUR_MS = 3_600_000


def ahead(pool: Pool, **changes: Any) -> Reservation:
    """A reservation that starts in an hour."""
    start = clocks.now_ms() + HOUR_MS
    made = make.reservation(cast.caller("alice"), pool, start=start, **changes)
    assert made.state == "placed"
    return made


def node_of(reservation: Reservation) -> Node:
    return Node.objects.get(pk=places(reservation)[0])


def places(reservation: Reservation) -> list[str]:
    live = reservation.allocations.filter(state__in=["placed", "binding", "bound"])
    return sorted(live.values_list("node_id", flat=True))


def cordon(node: Node) -> None:
    eligibility.cordon(node.pk)


def silence(node: Node) -> None:
    eligibility.mark_unreachable(node.pk)


def taint(node: Node) -> None:
    eligibility.taint(node.pk, [{"key": "maintenance", "effect": "NoSchedule"}])


def quarantine(node: Node) -> None:
    eligibility.quarantine_all(supply.devices(node), reason="xid 79")


@pytest.mark.parametrize("spoil", [cordon, silence, taint, quarantine])
def test_what_can_no_longer_serve_is_replaced_for_the_same_window(
    clock, spoil: Callable[[Node], None]
):
    reservation = ahead(make.pool(nodes=2, gpus=2), gpus=2)
    before = node_of(reservation)
    spoil(before)
    clock.advance("44m")
    assert places(make.look(reservation)) == [before.pk], "there is time yet"
    clock.advance("1m")
    repaired = make.look(reservation)

    assert places(repaired) != [before.pk]
    shown = queries.answer(repaired.pk)
    assert [part.node_id for part in shown.allocations] == places(repaired), "not what it had"
    assert (repaired.starts_at, repaired.ends_at) == (reservation.starts_at, reservation.ends_at)
    assert repaired.conditions == []
    assert DeviceBooking.objects.count() == 2
    assert {each.node_id for each in ResourceBooking.objects.all()} == set(places(repaired))
    assert [each.node_id for each in Assignment.objects.all()] == places(repaired)
    event = Event.objects.get(type="reservation.repaired")
    assert before.pk in event.data["reason"]
    assert invariants.violations() == []
    clock.advance("15m")
    assert make.look(repaired).state == "binding"


def test_what_serves_is_left_alone(clock):
    reservation = ahead(make.pool(nodes=2))
    clock.advance("50m")
    before = places(reservation)
    looked = make.look(reservation)
    assert looked.version == reservation.version
    assert places(looked) == before


def test_a_gang_keeps_the_nodes_that_serve(clock):
    reservation = ahead(make.pool(nodes=4, gpus=1), gang={"nodes": 3})
    before = places(reservation)
    cordon(Node.objects.get(pk=before[0]))
    clock.advance("45m")
    repaired = make.look(reservation)
    assert set(before[1:]) < set(places(repaired))
    assert len(places(repaired)) == 3
    assert repaired.gpu_milli == reservation.gpu_milli
    assert QuotaCharge.objects.get(resource="gpuMilli").amount == 3_000
    assert invariants.violations() == []


def test_a_gang_of_one_rack_moves_as_a_whole(clock):
    pool = make.pool(nodes=4, gpus=1)
    for rack, node in zip("aabb", Node.objects.order_by("pk"), strict=True):
        eligibility.set_labels(node.pk, {"topology.bc.dev/rack": rack})
    reservation = ahead(pool, gang={"nodes": 2, "topology": "same-rack"})
    before = places(reservation)
    cordon(Node.objects.get(pk=before[0]))
    clock.advance("45m")
    assert not set(places(make.look(reservation))) & set(before)
    assert invariants.violations() == []


def test_where_nothing_better_is_to_be_had_it_is_degraded_and_tried_again(clock):
    pool = make.pool(nodes=1, gpus=1)
    reservation = ahead(pool)
    before = places(reservation)
    silence(node_of(reservation))
    clock.advance("46m")
    looked = make.look(reservation)
    assert places(looked) == before
    assert [each["reason"] for each in looked.conditions] == ["NodeUnreachable"]
    again = reconciler.reconcile(looked.pk, make.fence)
    assert again == At(clocks.now() + moments.REPAIR_RETRY)
    make.node(pool, gpus=1)
    clock.advance("1m")
    repaired = make.look(looked)
    assert places(repaired) != before
    assert repaired.conditions == []
    assert invariants.violations() == []


def test_a_sick_card_is_replaced_by_another_of_its_host(clock):
    reservation = ahead(make.pool(nodes=1, gpus=2))
    (card,) = reservation.allocations.get().device_ids
    node = node_of(reservation)
    host = supply.host(node.name, gpus=2)
    sick = tuple(
        gpu.model_copy(update={"health": "unhealthy", "health_reason": "xid 79"})
        if gpu.uuid == card
        else gpu
        for gpu in host.gpus
    )
    inventory.apply(node.pk, host.model_copy(update={"gpus": sick}))
    assert health.of(node_ids=[node.pk], device_ids=[card]).unhealthy_devices == (card,)
    clock.advance("45m")
    repaired = make.look(reservation)
    live = repaired.allocations.get(state="placed")
    assert live.node_id == node.pk
    assert live.device_ids != [card]


@pytest.mark.rule("R33")
def test_an_extended_one_is_replaced_for_all_of_its_time(clock):
    alice = cast.caller("alice")
    reservation = ahead(make.pool(nodes=2, gpus=1), duration="1h")
    wanted = ExtendRequest(tenant_id=alice.tenant_id, by="1h")
    extension.extend(alice, wanted, reservation_id=reservation.pk, idempotency_key="longer")
    cordon(node_of(reservation))
    clock.advance("45m")
    repaired = make.look(reservation)
    (booking,) = DeviceBooking.objects.all()
    assert booking.during.upper - booking.during.lower == timedelta(hours=2)
    assert repaired.ends_at == booking.during.upper
    assert invariants.violations() == []


def test_an_active_one_is_never_moved(clock):
    reservation = make.active(cast.caller("alice"), make.pool(nodes=2), duration="8h")
    before = places(reservation)
    silence(node_of(reservation))
    clock.advance("1h")
    looked = make.look(reservation)
    assert (looked.state, places(looked)) == ("active", before)
