"""The client goes away during a create, or the server dies: all of it or nothing, and the same key
finds it (R8, C28)."""

import pytest

from bettercompute import failpoints
from bettercompute.failpoints import Failpoint
from nodes.models import Assignment, DeviceBooking
from outbox.models import Event
from pools.models import QuotaUsage
from reservations import admission
from reservations.models import Allocation, Reservation
from tests.support import cast, invariants, make

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.case(21),
    pytest.mark.rule("R8", "R10", "C28"),
]

NODES = 2
GPUS = 3

# Where it dies, and whether what it was asked for is there then.
POINTS = [
    (Failpoint.DRAFT_RECORDED, False),
    (Failpoint.PLACEMENT_PLANNED, False),
    (Failpoint.PLACEMENT_BOOKED, False),
    (Failpoint.PLACEMENT_COMMITTED, True),
]


class Died(BaseException):
    """The process ended here; nobody was answered."""


def die() -> None:
    raise Died


@pytest.mark.parametrize(("point", "whole"), POINTS, ids=[str(point) for point, _ in POINTS])
def test_it_is_whole_or_nothing_and_the_retry_finds_it(point: Failpoint, *, whole: bool) -> None:
    pool, alice = make.pool(nodes=NODES), cast.caller("alice")
    wanted = make.request(alice, pool, gpus=GPUS, gang={"nodes": NODES})
    failpoints.arm(point, die)
    with pytest.raises(Died):
        admission.admit(alice, wanted, idempotency_key="k")
    failpoints.disarm()

    found = Reservation.objects.get()
    assert found.state == ("placed" if whole else "draft")
    assert Allocation.objects.count() == (NODES if whole else 0)
    assert DeviceBooking.objects.count() == (NODES * GPUS if whole else 0)
    assert Event.objects.filter(type="reservation.placed").count() == whole
    assert (invariants.held() == []) is not whole
    assert invariants.violations() == []

    again = admission.admit(alice, wanted, idempotency_key="k")

    assert (again.reservation_id, again.created) == (found.pk, not whole)
    found.refresh_from_db()
    assert found.state == "placed"
    assert DeviceBooking.objects.count() == NODES * GPUS
    assert QuotaUsage.objects.get(resource="gpuMilli").used == NODES * GPUS * 1_000
    assert Event.objects.filter(type="reservation.placed").count() == 1
    assert invariants.violations() == []


@pytest.mark.rule("R9")
@pytest.mark.parametrize("point", [point for point, whole in POINTS if not whole], ids=str)
def test_what_nobody_comes_back_for_holds_nothing_is_seen_by_nobody_and_expires(
    clock, point: Failpoint
) -> None:
    pool, alice = make.pool(), cast.caller("alice")
    failpoints.arm(point, die)
    with pytest.raises(Died):
        make.reservation(alice, pool, gpus=8)
    failpoints.disarm()

    assert make.reservation(cast.caller("bob"), pool, gpus=8).state == "placed", "no ghost holds it"
    listed = cast.api("alice").get(f"/reservations?tenantId={alice.tenant_id}&scope=mine").json()
    assert listed["items"] == []
    clock.advance("24h")
    ghost = Reservation.objects.get(state="draft")
    assert make.look(ghost).state == "expired"


def test_what_nobody_came_back_for_is_found_in_the_list_and_can_be_released() -> None:
    pool, alice = make.pool(), cast.api("alice")
    failpoints.arm(Failpoint.PLACEMENT_COMMITTED, die)
    with pytest.raises(Died):
        make.reservation(cast.caller("alice"), pool)
    failpoints.disarm()

    tenant = cast.tenant().pk
    (found,) = alice.get(f"/reservations?tenantId={tenant}").json()["items"]
    released = alice.post(f"/reservations/{found['id']}/release", {"tenantId": tenant})

    assert released.json()["state"] == "released"
    assert invariants.held() == []
    assert not Assignment.objects.filter(wanted=True).exists()
