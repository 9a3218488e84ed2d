import pytest

from bettercompute import errors
from nodes.models import DeviceBooking, ResourceBooking
from outbox.models import Event
from pools.models import QuotaCharge
from reservations import ending
from tests.support import cast, make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.rule("R35", "C14")
def test_releasing_one_that_has_started_ends_it_now(clock):
    alice = cast.caller("alice")
    reservation = make.reservation(alice, make.pool(), gpus=2, duration="8h")
    clock.advance("1h")
    ended = ending.release(alice, reservation_id=reservation.pk)

    assert [ended.state, ended.reason] == ["released", "release"]
    assert ended.ends_at == clock.now()
    assert {b.during.upper for b in DeviceBooking.objects.all()} == {clock.now()}
    assert {b.during.upper for b in ResourceBooking.objects.all()} == {clock.now()}
    assert not QuotaCharge.objects.exists()


@pytest.mark.rule("R35")
def test_releasing_one_that_never_started_deletes_its_bookings_and_keeps_its_window(clock):
    alice = cast.caller("alice")
    start = clock.now_ms() + 3_600_000
    reservation = make.reservation(alice, make.pool(), start=start)
    ended = ending.release(alice, reservation_id=reservation.pk)
    assert ended.state == "released"
    assert ended.starts_at == reservation.starts_at
    assert ended.ends_at == reservation.ends_at
    assert not DeviceBooking.objects.exists()
    assert not ResourceBooking.objects.exists()


@pytest.mark.rule("R35", "R23")
def test_releasing_a_pending_one_cancels_it():
    alice, pool = cast.caller("alice"), make.pool(gpus=8)
    make.reservation(alice, pool, gpus=8)
    waiting = make.reservation(alice, pool)
    assert ending.release(alice, reservation_id=waiting.pk).state == "cancelled"
    assert not QuotaCharge.objects.filter(owner_key=waiting.pk).exists()


@pytest.mark.rule("R35")
def test_releasing_an_ended_one_changes_nothing():
    alice = cast.caller("alice")
    reservation = make.reservation(alice, make.pool())
    first = ending.release(alice, reservation_id=reservation.pk)
    second = ending.release(alice, reservation_id=reservation.pk)
    assert second.version == first.version
    assert Event.objects.filter(type="reservation.released").count() == 1


@pytest.mark.rule("R35")
def test_cancelling_is_only_for_what_has_not_started(clock):
    alice, pool = cast.caller("alice"), make.pool()
    ahead = make.reservation(alice, pool, start=clock.now_ms() + 3_600_000)
    assert ending.cancel(alice, reservation_id=ahead.pk).state == "cancelled"
    assert not DeviceBooking.objects.exists()

    started = make.reservation(alice, pool)
    with pytest.raises(errors.InvalidState):
        ending.cancel(alice, reservation_id=started.pk)


@pytest.mark.rule("R38")
def test_members_end_their_own_and_admins_anyones():
    alice, bob, pool = cast.caller("alice"), cast.caller("bob"), make.pool()
    hers = make.reservation(alice, pool)
    his = make.reservation(bob, pool)
    with pytest.raises(errors.AccessDenied):
        ending.release(bob, reservation_id=hers.pk)
    assert ending.release(alice, reservation_id=his.pk).state == "released"


@pytest.mark.rule("R38")
@pytest.mark.case(24)
def test_another_tenants_reservation_is_not_found():
    reservation = make.reservation(cast.caller("alice"), make.pool())
    for verb in (ending.release, ending.cancel):
        with pytest.raises(errors.NotFound):
            verb(cast.caller("mallory"), reservation_id=reservation.pk)


@pytest.mark.rule("C2")
def test_a_stale_version_is_refused_and_changes_nothing():
    alice = cast.caller("alice")
    reservation = make.reservation(alice, make.pool())
    with pytest.raises(errors.PreconditionFailed) as refused:
        ending.release(alice, reservation_id=reservation.pk, if_match=frozenset({1}))
    assert refused.value.details["version"] == reservation.version
    reservation.refresh_from_db()
    assert reservation.state == "placed"
