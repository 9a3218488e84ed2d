"""What was free when somebody looked is checked again when it is placed (C17).

Whatever came between the look and the placing, however long it took: the answer is a conflict or a
place in the line, never a device that somebody else holds.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import transaction

from bettercompute import errors, failpoints
from bettercompute.failpoints import Failpoint
from nodes.models import DeviceBooking
from outbox.models import Event
from pools import quota
from reservations import admission
from reservations.lifecycle import Effects
from reservations.models import Reservation
from reservations.placing import pending
from tests.support import cast, invariants, make

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.case(2),
    pytest.mark.rule("C17", "R10"),
]

# So little of the host comes with a card that only the card itself is ever the last one.
CHEAP = {"perGpu": {"vcpu": 1, "memoryGiB": 1}}


class Died(BaseException):
    """The process ended here."""


@contextmanager
def dying_at(point: Failpoint) -> Iterator[None]:
    def die() -> None:
        raise Died

    failpoints.arm(point, die)
    with pytest.raises(Died):
        yield
    failpoints.disarm()


def waits_holding_nothing(reservation: Reservation) -> None:
    """It is in the line, with a reason, and whoever was faster has the device alone."""
    assert reservation.state == "pending"
    (why,) = reservation.conditions
    assert why["type"] == "Unschedulable"
    assert why["message"]
    assert not reservation.allocations.exists()
    assert DeviceBooking.objects.count() == 1
    assert Event.objects.filter(subject=f"reservation/{reservation.pk}").count() == 1
    assert invariants.violations() == []


def test_a_preview_promises_nothing(clock) -> None:
    pool, alice = make.pool(nodes=1, gpus=1, **CHEAP), cast.caller("alice")
    api = cast.api("alice")
    body = {
        "tenantId": alice.tenant_id,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": "1h",
    }
    seen = api.post("/capacity/preview", body).json()
    assert seen["fits"] is True, seen

    clock.advance("8h")
    make.reservation(cast.caller("bob"), pool)
    made = api.post("/reservations", {**body, "idempotencyKey": "later"})

    assert made.status_code in {201, 202}
    waits_holding_nothing(Reservation.objects.get(pk=made.json()["id"]))


def test_a_draft_that_is_taken_up_hours_later_is_placed_as_things_are_then(clock) -> None:
    pool, alice = make.pool(nodes=1, gpus=1, **CHEAP), cast.caller("alice")
    wanted = make.request(alice, pool)
    with dying_at(Failpoint.DRAFT_RECORDED):
        admission.admit(alice, wanted, idempotency_key="k")

    clock.advance("20h")
    make.reservation(cast.caller("bob"), pool, duration="2d")
    admitted = admission.admit(alice, wanted, idempotency_key="k")

    waits_holding_nothing(Reservation.objects.get(pk=admitted.reservation_id))


def test_a_plan_whose_device_was_taken_meanwhile_is_not_carried_out() -> None:
    pool = make.pool(nodes=1, gpus=1, **CHEAP)

    def taken() -> None:
        failpoints.disarm()
        make.reservation(cast.caller("bob"), pool)

    failpoints.arm(Failpoint.PLACEMENT_PLANNED, taken)
    waits_holding_nothing(make.reservation(cast.caller("alice"), pool))


def test_a_plan_whose_device_was_taken_meanwhile_goes_to_another_node() -> None:
    pool = make.pool(nodes=2, gpus=1, **CHEAP)

    def taken() -> None:
        failpoints.disarm()
        make.reservation(cast.caller("bob"), pool)

    failpoints.arm(Failpoint.PLACEMENT_PLANNED, taken)
    made = make.reservation(cast.caller("alice"), pool)

    assert made.state == "placed"
    assert DeviceBooking.objects.values("device_id").distinct().count() == 2
    assert invariants.violations() == []


def test_one_that_waits_looks_again_under_its_lock() -> None:
    pool, alice = make.pool(nodes=1, gpus=1, **CHEAP), cast.caller("alice")
    first = make.reservation(alice, pool)
    waiting = make.reservation(alice, pool)
    cast.api("alice").post(f"/reservations/{first.pk}/release", {"tenantId": first.tenant_id})

    @contextmanager
    def late_fence() -> Iterator[None]:
        """Somebody else comes between its plan and its transaction."""
        make.reservation(cast.caller("bob"), pool, duration="3h")
        with transaction.atomic(durable=True):
            yield

    assert pending.try_place(waiting.pk, late_fence, Effects())
    waiting.refresh_from_db()
    assert (waiting.state, waiting.allocations.count()) == ("pending", 0)
    assert invariants.violations() == []


def test_a_quota_that_was_cut_after_the_look_is_the_one_that_counts() -> None:
    pool, alice = make.pool(nodes=1, gpus=8), cast.caller("alice")

    def cut() -> None:
        failpoints.disarm()
        quota.set_max(alice.tenant_id, "gpuMilli", 3_000)

    failpoints.arm(Failpoint.PLACEMENT_PLANNED, cut)
    with pytest.raises(errors.QuotaExceeded):
        make.reservation(alice, pool, gpus=4, idempotency_key="k")

    assert Reservation.objects.get().state == "draft"
    assert not DeviceBooking.objects.exists()
    assert invariants.held() == []
