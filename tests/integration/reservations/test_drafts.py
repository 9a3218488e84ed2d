"""A draft is written down before it is decided, so that the same key can go on with it."""

import pytest

from bettercompute import failpoints
from bettercompute.failpoints import Failpoint
from nodes.models import DeviceBooking
from pools.models import QuotaCharge
from reservations import admission
from reservations.models import Reservation
from tests.support import cast, make

pytestmark = pytest.mark.django_db(transaction=True)


class Died(BaseException):
    """The process ended here."""


def die():
    raise Died


@pytest.mark.rule("R8", "R10", "C28")
def test_after_a_crash_behind_the_draft_the_same_key_goes_on_with_it():
    pool, alice = make.pool(), cast.caller("alice")
    wanted = make.request(alice, pool, gpus=2)
    failpoints.arm(Failpoint.DRAFT_RECORDED, die)
    with pytest.raises(Died):
        admission.admit(alice, wanted, idempotency_key="k")
    draft = Reservation.objects.get()
    assert draft.state == "draft"
    assert not QuotaCharge.objects.exists()
    assert not DeviceBooking.objects.exists()

    failpoints.disarm()
    admitted = admission.admit(alice, wanted, idempotency_key="k")

    placed = Reservation.objects.get()
    assert (placed.pk, placed.state) == (draft.pk, "placed")
    assert admitted.reservation_id == draft.pk
    assert QuotaCharge.objects.count() == 1
    assert DeviceBooking.objects.count() == 2
