import pytest

from bettercompute import errors, wiring
from bettercompute.coordination.runner import Runner
from nodes.models import DeviceBooking
from reservations import ending, renewal
from tests.support import cast, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R32")]


def test_renewing_moves_the_deadline_and_not_the_window(clock):
    alice = cast.caller("alice")
    reservation = make.active(alice, make.pool(), duration="8h", leaseSeconds=600)
    clock.advance("5m")
    renewed = renewal.renew(alice, reservation_id=reservation.pk)
    assert (renewed.lease_until - clock.now()).total_seconds() == 600
    assert (renewed.starts_at, renewed.ends_at) == (reservation.starts_at, reservation.ends_at)
    assert renewed.version == reservation.version + 1


def test_one_that_is_renewed_in_time_goes_on_and_one_that_is_not_is_released(clock):
    alice = cast.caller("alice")
    reservation = make.active(alice, make.pool(), duration="8h", leaseSeconds=600)
    for _ in range(3):
        clock.advance("9m")
        renewal.renew(alice, reservation_id=reservation.pk)
        assert make.look(reservation).state == "active"
    clock.advance("10m")
    lapsed = make.look(reservation)
    assert (lapsed.state, lapsed.reason) == ("released", "lease-lapsed")


def test_without_a_lease_there_is_nothing_to_renew():
    alice = cast.caller("alice")
    reservation = make.reservation(alice, make.pool())
    with pytest.raises(errors.InvalidState, match="leaseSeconds"):
        renewal.renew(alice, reservation_id=reservation.pk)


def test_what_has_ended_or_waits_is_not_renewed():
    alice, pool = cast.caller("alice"), make.pool(gpus=1)
    ended = make.reservation(alice, pool, leaseSeconds=60)
    ending.release(alice, reservation_id=ended.pk)
    make.reservation(alice, pool)
    waiting = make.reservation(alice, pool, leaseSeconds=60)
    for reservation in (ended, waiting):
        with pytest.raises(errors.InvalidState):
            renewal.renew(alice, reservation_id=reservation.pk)


@pytest.mark.rule("R38")
def test_another_tenants_reservation_is_not_found():
    reservation = make.reservation(cast.caller("alice"), make.pool(), leaseSeconds=60)
    with pytest.raises(errors.NotFound):
        renewal.renew(cast.caller("mallory"), reservation_id=reservation.pk)


@pytest.mark.rule("C2")
def test_a_stale_version_renews_nothing(clock):
    alice = cast.caller("alice")
    reservation = make.reservation(alice, make.pool(), leaseSeconds=60)
    clock.advance("10s")
    with pytest.raises(errors.PreconditionFailed):
        renewal.renew(
            alice, reservation_id=reservation.pk, if_match=frozenset({reservation.version + 7})
        )
    reservation.refresh_from_db()
    assert (reservation.lease_until - clock.now()).total_seconds() == 50


@pytest.mark.rule("R24")
def test_a_lease_lapses_in_time_though_its_start_is_far_ahead(clock):
    """Nobody looks before the start for any other reason, and the devices are free for others."""
    start = clock.now_ms() + 6 * 3_600_000
    made = make.reservation(
        cast.caller("alice"), make.pool(), start=start, duration="2h", leaseSeconds=600
    )
    runner = Runner(wiring.reconcilers())
    runner.drain()
    clock.advance("10m")
    runner.drain()
    made.refresh_from_db()
    assert (made.state, made.reason) == ("released", "lease-lapsed")
    assert not DeviceBooking.objects.exists()
