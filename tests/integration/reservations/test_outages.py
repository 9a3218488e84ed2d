"""While nobody can renew a lease, no lease runs on (C38)."""

from datetime import datetime, timedelta

import pytest
from django.db import OperationalError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bettercompute import clock as clock_module
from bettercompute.coordination import heartbeats
from bettercompute.coordination.runner import At
from reservations import outages, reconciler
from reservations.models import ApiOutage, ApiWatch, Reservation
from tests.conftest import START, SimulatedClock
from tests.support import cast, make, sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C38")]

LEASE = 600


def serve(clock: SimulatedClock, seconds: int) -> None:
    """Let time pass with a web process that beats."""
    for _ in range(seconds // 5):
        clock.advance("5s")
        outages.beat()


def leased(clock: SimulatedClock, *, seconds: int = LEASE) -> Reservation:
    """An active reservation with a lease, of an API that beats."""
    outages.beat()
    return make.active(cast.caller("alice"), make.pool(), duration="8h", leaseSeconds=seconds)


def lease_of(reservation: Reservation) -> timedelta:
    """When it lapses, as time since START."""
    reservation.refresh_from_db()
    assert reservation.lease_until is not None
    return reservation.lease_until - START


def test_a_lease_that_is_not_renewed_lapses_while_the_api_serves(clock: SimulatedClock) -> None:
    reservation = leased(clock)
    serve(clock, LEASE - 5)
    assert make.look(reservation).state == "active"
    serve(clock, 5)
    reservation = make.look(reservation)
    assert [reservation.state, reservation.reason] == ["released", "lease-lapsed"]
    assert not ApiOutage.objects.exists()


def test_in_the_first_moment_after_an_outage_nothing_lapses(clock: SimulatedClock) -> None:
    reservation = leased(clock)
    serve(clock, 300)
    clock.advance("20m")  # the database is gone, and with it the API

    # The worker is quicker than the API: nobody has beaten yet.
    outcome = reconciler.reconcile(reservation.pk, make.fence)
    assert outcome == At(clock.now() + timedelta(seconds=5))
    assert make.look(reservation).state == "active"

    outages.beat()
    assert make.look(reservation).state == "active"
    assert lease_of(reservation) == timedelta(seconds=LEASE, minutes=20)
    serve(clock, 295)
    assert make.look(reservation).state == "active"
    serve(clock, 5)
    assert make.look(reservation).reason == "lease-lapsed"


def test_the_api_alone_being_gone_is_an_outage_too(clock: SimulatedClock) -> None:
    reservation = leased(clock)
    for _ in range(30):
        clock.advance("50s")  # workers and gateways go on
        reconciler.reconcile(reservation.pk, make.fence)
    assert make.look(reservation).state == "active"


def test_the_moment_in_the_queue_follows(clock: SimulatedClock) -> None:
    reservation = leased(clock)
    serve(clock, 590)
    clock.advance("5m")
    outages.beat()
    serve(clock, 10)
    # What the queue has is the old deadline: the look finds the new one and asks for that.
    outcome = reconciler.reconcile(reservation.pk, make.fence)
    assert outcome == At(START + timedelta(seconds=LEASE, minutes=5))


def test_what_had_lapsed_before_the_outage_stays_lapsed(clock: SimulatedClock) -> None:
    reservation = leased(clock)
    serve(clock, LEASE + 5)  # no worker has looked
    clock.advance("20m")
    assert make.look(reservation).reason == "lease-lapsed", "the API served at the deadline"


def test_a_stale_deadline_is_not_judged_between_the_beat_and_the_shift(
    clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reservation = leased(clock)
    clock.advance("20m")
    # The outage ends right behind the look for outages to make up for.
    monkeypatch.setattr(outages, "make_up", lambda _: outages.beat())
    assert reconciler.reconcile(reservation.pk, make.fence) == At(
        clock.now() + timedelta(seconds=5)
    )
    monkeypatch.undo()
    assert make.look(reservation).state == "active"
    assert lease_of(reservation) == timedelta(seconds=LEASE, minutes=20)


@pytest.mark.parametrize(
    ("given_at", "began", "ended", "moved_by"),
    [
        (0, 300, 314, 0),  # within a gap between beats
        (0, 300, 315, 0),
        (0, 300, 316, 16),
        (0, 300, 1_500, 1_200),
        (0, 595, 1_500, 905),
        (0, 600, 1_500, 0),  # it had lapsed when the outage began
        (0, 605, 1_500, 0),
        (400, 300, 1_500, 1_100),  # given while the API could not be heard of
        (1_500, 300, 1_500, 0),  # given when it was over
        (1_600, 300, 1_500, 0),
    ],
)
def test_an_outage_moves_the_leases_that_it_interrupted(
    clock: SimulatedClock, given_at: int, began: int, ended: int, moved_by: int
) -> None:
    reservation = leased(clock)
    deadline = START + timedelta(seconds=given_at + LEASE)
    Reservation.objects.update(lease_until=deadline)
    before = Reservation.objects.get().version
    ApiWatch.objects.update(beat_at=START + timedelta(seconds=began))
    clock.set(START + timedelta(seconds=ended))
    outages.beat()
    outages.make_up(make.fence)
    reservation.refresh_from_db()
    assert reservation.lease_until == deadline + timedelta(seconds=moved_by)
    assert reservation.version == before + bool(moved_by)


def test_outages_that_nobody_made_up_for_add_up(clock: SimulatedClock) -> None:
    reservation = leased(clock)
    for _ in range(3):
        serve(clock, 100)
        clock.advance("1h")
        outages.beat()
    assert ApiOutage.objects.filter(applied_at=None).count() == 3
    assert outages.make_up(make.fence) == 3
    assert lease_of(reservation) == timedelta(seconds=LEASE, hours=3)
    assert outages.make_up(make.fence) == 0


def test_a_lease_without_a_window_is_left_alone(clock: SimulatedClock) -> None:
    pool = make.pool(gpus=1)
    without = make.reservation(cast.caller("alice"), pool)
    waiting = make.reservation(cast.caller("alice"), pool, leaseSeconds=60)
    outages.beat()
    clock.advance("1h")
    outages.beat()
    outages.make_up(make.fence)
    without.refresh_from_db()
    waiting.refresh_from_db()
    assert (without.lease_until, waiting.lease_until) == (None, None)


@pytest.mark.rule("C28")
def test_an_outage_is_found_once_and_made_up_for_once_however_many_try(
    clock: SimulatedClock,
) -> None:
    reservation = leased(clock)
    serve(clock, 300)
    clock.advance("20m")
    sessions.race(*[outages.beat] * 6)
    assert ApiOutage.objects.count() == 1
    done = sessions.race(*[lambda: outages.make_up(make.fence)] * 6)
    assert all(isinstance(each, int) for each in done), done
    assert lease_of(reservation) == timedelta(seconds=LEASE, minutes=20)


def test_who_judges_a_lease_and_who_moves_it_wait_for_each_other(clock: SimulatedClock) -> None:
    reservation = leased(clock)
    clock.advance("20m")
    outages.beat()
    with sessions.opened("shifts", "judges") as (shifts, judges):
        shifts.begin()
        shifts.run(lambda: outages.OUTAGES.run("apply_oldest"))
        judging = judges.start(lambda: reconciler.reconcile(reservation.pk, make.fence))
        judging.must_block()
        shifts.commit()
        judging.result()
    assert make.look(reservation).state == "active"
    assert lease_of(reservation) == timedelta(seconds=LEASE, minutes=20)


@pytest.mark.rule("C28")
def test_a_second_shift_waits_for_the_first_and_finds_nothing_to_do(clock: SimulatedClock) -> None:
    reservation = leased(clock)
    serve(clock, 300)
    clock.advance("20m")
    outages.beat()
    with sessions.opened("first", "second") as (first, second):
        first.begin()
        first.run(lambda: outages.OUTAGES.run("apply_oldest"))
        again = second.start(lambda: outages.OUTAGES.run("apply_oldest"))
        again.must_block()
        first.commit()
        assert again.result() == 0
    assert lease_of(reservation) == timedelta(seconds=LEASE, minutes=20)


@pytest.mark.rule("C28")
def test_a_second_beat_waits_for_the_first_and_finds_no_outage(clock: SimulatedClock) -> None:
    outages.beat()
    clock.advance("20m")
    with sessions.opened("first", "second") as (first, second):
        first.begin()
        first.run(lambda: outages.OUTAGES.run("beat", gap_seconds=outages.GAP_SECONDS))
        again = second.start(lambda: outages.OUTAGES.run("beat", gap_seconds=outages.GAP_SECONDS))
        again.must_block()
        first.commit()
        again.result()
    assert ApiOutage.objects.count() == 1


def test_a_shift_that_is_rolled_back_is_made_again(clock: SimulatedClock) -> None:
    reservation = leased(clock)
    clock.advance("20m")
    outages.beat()
    with sessions.opened("dies") as (dies,):
        dies.begin()
        dies.run(lambda: outages.OUTAGES.run("apply_oldest"))
        dies.rollback()
    assert lease_of(reservation) == timedelta(seconds=LEASE)
    make.look(reservation)
    assert lease_of(reservation) == timedelta(seconds=LEASE, minutes=20)


# --- always ---------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["serve", "away", "serve and look", "away, look"]),
        st.sampled_from([1, 2, 3, 4, 10, 60, 130]),
    ),
    max_size=12,
)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_a_lease_lapses_after_its_time_with_the_api_there_and_not_before(
    clock: SimulatedClock, steps: list[tuple[str, int]]
) -> None:
    ApiOutage.objects.all().delete()
    ApiWatch.objects.all().delete()
    clock.set(START)
    reservation = leased(clock)
    served = _Served(clock.now())
    for what, units in steps:
        for _ in range(units):
            clock.advance("5s")
            if what.startswith("serve"):
                outages.beat()
                served.beat(clock.now())
        if what.endswith("look"):
            lapsed = make.look(reservation).state == "released"
            assert not lapsed or served.seconds >= LEASE
            if lapsed:
                return
    serve(clock, LEASE + 20)
    assert make.look(reservation).reason == "lease-lapsed", "in the end it does"


class _Served:
    """For how long the API served, by its beats: gaps of over 15 s left out."""

    def __init__(self, now: datetime) -> None:
        self.at = now
        self.seconds = 0.0

    def beat(self, now: datetime) -> None:
        gap = (now - self.at).total_seconds()
        self.seconds += gap if gap <= 15 else 0
        self.at = now


# --- who beats ------------------------------------------------------------------------------------


def test_a_beat_is_in_the_heartbeats_of_the_web(clock: SimulatedClock) -> None:
    outages.beat()
    assert len(heartbeats.alive("web")) == 1
    assert ApiWatch.objects.get().beat_at == clock_module.now()


def test_a_beat_that_fails_half_way_leaves_nothing(
    clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    outages.beat()
    before = ApiWatch.objects.get().beat_at
    clock.advance("1m")

    def broken(*_: object, **__: object) -> None:
        raise OperationalError

    monkeypatch.setattr(type(outages.OUTAGES), "run", broken)
    with pytest.raises(OperationalError):
        outages.beat()
    monkeypatch.undo()
    assert ApiWatch.objects.get().beat_at == before
    assert heartbeats.alive("web") == []
