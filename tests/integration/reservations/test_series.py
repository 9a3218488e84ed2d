"""Series: what repeats is booked ahead, one ordinary reservation an occurrence."""

from datetime import UTC, timedelta

import pytest

from bettercompute import clock as clocks
from bettercompute import errors, failpoints
from bettercompute.failpoints import Failpoint
from bettercompute.iam import policies
from bettercompute.iam.policies import Draft
from outbox.models import Event
from reservations import ending, reconciler
from reservations.models import Reservation, Series
from reservations.series import booking
from tests.support import cast, invariants, make, repeating

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.case(20)]


class Killed(Exception):
    """The worker is gone."""


def test_every_occurrence_is_a_reservation_of_its_own(clock):
    series = repeating.opened(make.pool(), "FREQ=WEEKLY;BYDAY=TU,TH;COUNT=4")
    found = repeating.occurrences(series)
    assert repeating.local(series) == ["03-03 15:00", "03-05 15:00", "03-10 15:00", "03-12 15:00"]
    assert {each.state for each in found} == {"placed"}
    assert [each.starts_at for each in found] == [each.occurrence_at for each in found]
    assert len({each.pk for each in found}) == 4
    assert {each.owner_id for each in found} == {cast.account("bob").pk}
    assert [each.allocations.count() for each in found] == [1, 1, 1, 1]
    assert {each.decision["effect"] for each in found} == {"allow"}
    assert "recurrence" in found[0].request
    assert "recurrence" not in found[1].request
    assert invariants.violations() == []


def test_daily_since_spring_and_a_one_off_behind_the_change_of_clocks_meet(clock):
    """Slurm T24758: both were accepted, an hour apart, after clocks had changed."""
    clock.set(repeating.at("2026-10-20T09:00").astimezone(UTC))
    pool = make.pool(gpus=1, recurrenceAhead="15d")
    series = repeating.opened(pool, "FREQ=DAILY", "2026-10-20T15:00")
    november = repeating.at("2026-11-02T15:00")
    (booked,) = [each for each in repeating.occurrences(series) if each.occurrence_at == november]
    assert booked.starts_at == november

    one_off = make.reservation(cast.caller("alice"), pool, start=clocks.to_ms(november))
    assert one_off.state == "pending"
    assert {
        f"{each.occurrence_at.astimezone(repeating.BERLIN):%H:%M}"
        for each in repeating.occurrences(series)
    } == {"15:00"}
    assert invariants.violations() == []


def test_one_off_first_the_occurrence_is_left_out_and_says_why(clock):
    pool = make.pool(gpus=1)
    repeating.blocked(pool, "2026-03-30T15:00")  # a day behind the change of clocks
    series = repeating.opened(pool, "FREQ=DAILY;COUNT=4", "2026-03-28T15:00")
    unbooked = [each for each in repeating.occurrences(series) if each.state == "draft"]
    assert [each.occurrence_at for each in unbooked] == [repeating.at("2026-03-30T15:00")]
    assert repeating.why(unbooked[0]) == "NoCapacity"
    assert "busy" in unbooked[0].conditions[0]["message"]
    event = Event.objects.get(type="reservation.series-unbooked")
    assert event.subject == f"series/{series.pk}"
    assert event.data["occurrence"] == clocks.to_ms(repeating.at("2026-03-30T15:00"))
    assert event.data["reason"] == "NoCapacity"
    assert invariants.violations() == []


def test_what_was_left_out_is_booked_once_there_is_room(clock):
    pool = make.pool(gpus=1)
    other = repeating.blocked(pool, "2026-03-05T15:00")
    series = repeating.opened(pool)
    assert repeating.states(series) == ["placed", "placed", "draft", "placed", "placed"]
    ending.cancel(cast.caller("alice"), reservation_id=other.pk)
    clock.advance("1h")
    repeating.look(series.pk)
    assert repeating.states(series) == ["placed"] * 5
    assert repeating.occurrences(series)[2].conditions == []
    assert repeating.occurrences(series)[2].retry_at is None
    assert invariants.violations() == []


def test_the_nearer_an_occurrence_the_sooner_it_is_tried_again():
    def minutes(**ahead: float) -> float:
        return booking.pause(timedelta(**ahead)) / timedelta(minutes=1)

    assert [minutes(days=30), minutes(hours=12), minutes(hours=2)] == [60, 60, 10]
    assert [minutes(minutes=12), minutes(seconds=5)] == [1, 1]
    assert booking.pause(timedelta(days=30), soon=True) == timedelta(seconds=1)


@pytest.mark.rule("R24")
def test_one_that_no_node_could_serve_says_so_and_counts_against_nothing(clock):
    series = repeating.opened(make.pool(gpus=8), "FREQ=DAILY;COUNT=2", gpus=16)
    first, second = repeating.occurrences(series)
    assert (first.state, repeating.why(first)) == ("pending", "NeverFits")
    assert "counts against the quota" in first.conditions[0]["message"]
    assert (second.state, repeating.why(second)) == ("draft", "NeverFits")
    assert second.conditions[0]["message"].endswith(
        "the most is 8 GPUs on a node, even with nothing booked."
    )
    assert invariants.violations() == []


def test_what_was_left_out_until_its_time_is_missed_and_never_begins_late(clock):
    pool = make.pool(gpus=1)
    repeating.blocked(pool, "2026-03-05T15:00", hours=2)
    series = repeating.opened(pool)
    clock.set(repeating.at("2026-03-05T15:00").astimezone(UTC))
    repeating.look(series.pk)
    missed = repeating.occurrences(series)[2]
    assert (missed.state, missed.reason) == ("expired", "missed")
    assert repeating.why(missed) == "NoCapacity"
    assert Event.objects.filter(
        type="reservation.expired", subject=f"reservation/{missed.pk}"
    ).exists()
    clock.advance("3h")
    repeating.look(series.pk)
    assert repeating.occurrences(series)[2].state == "expired"


def test_the_quota_bounds_how_many_are_booked_at_once_the_nearest_first(clock):
    pool = make.pool(quota_gpus=2)
    series = repeating.opened(pool)
    assert repeating.states(series) == ["placed", "placed", "draft", "draft", "draft"]
    assert repeating.why(repeating.occurrences(series)[2]) == "QuotaExceeded"
    first = repeating.occurrences(series)[0]
    ending.cancel(cast.caller("bob"), reservation_id=first.pk)
    clock.advance("1h")
    repeating.look(series.pk)
    assert repeating.states(series) == ["cancelled", "placed", "placed", "draft", "draft"]
    assert invariants.violations() == []


def test_a_policy_on_how_far_ahead_lets_each_in_when_it_is_near_enough(clock):
    pool = make.pool()
    policies.create(
        cast.caller("alice"),
        draft=Draft(
            "two-days",
            'forbid(principal, action == Action::"compute:reservations:create", resource)'
            " when { context.leadMinutes > 3300 };",
        ),
    )
    series = repeating.opened(pool)
    assert repeating.states(series) == ["placed", "placed", "draft", "draft", "draft"]
    assert repeating.why(repeating.occurrences(series)[2]) == "AccessDenied"
    clock.set(repeating.at("2026-03-03T16:00").astimezone(UTC))
    repeating.look(series.pk)
    assert repeating.states(series)[:4] == ["placed", "placed", "placed", "draft"]


def test_a_denied_first_occurrence_leaves_no_series(clock):
    pool = make.pool(maxDuration="30m")
    with pytest.raises(errors.AccessDenied):
        repeating.opened(pool)
    assert not Series.objects.exists()
    assert Reservation.objects.get().state == "denied"


def test_over_the_quota_leaves_no_series_and_the_same_key_may_try_again(clock):
    pool = make.pool(quota_gpus=0)
    with pytest.raises(errors.QuotaExceeded):
        repeating.opened(pool, idempotency_key="again")
    assert not Series.objects.exists()
    make.grant("acme", gpus=8)
    assert repeating.states(repeating.opened(pool, idempotency_key="again")) == ["placed"] * 5


@pytest.mark.rule("R8")
def test_the_same_key_reaches_the_same_series(clock):
    pool = make.pool()
    series = repeating.opened(pool, idempotency_key="weekly")
    again = repeating.opened(pool, idempotency_key="weekly")
    assert again.pk == series.pk
    assert Reservation.objects.count() == 5
    with pytest.raises(errors.Conflict):
        repeating.opened(pool, "FREQ=DAILY;COUNT=6", idempotency_key="weekly")


def test_the_horizon_moves_day_by_day(clock):
    pool = make.pool(recurrenceAhead="3d")
    series = repeating.opened(pool, "FREQ=DAILY")
    assert repeating.local(series) == ["03-03 15:00", "03-04 15:00"]
    next_look = repeating.look(series.pk)
    assert next_look == repeating.at("2026-03-05T15:00") - timedelta(days=3)
    for day in range(3):
        clock.advance("1d")
        repeating.look(series.pk)
        ahead = [each for each in repeating.occurrences(series) if each.occurrence_at > clock.now()]
        assert len(ahead) == 3, day
        assert invariants.violations() == []


def test_a_pool_that_lets_nobody_book_far_ahead_bounds_the_horizon_too(clock):
    series = repeating.opened(make.pool(maxAhead="2d"), "FREQ=DAILY")
    assert repeating.local(series) == ["03-03 15:00"]
    clock.advance("12h")
    repeating.look(series.pk)
    assert repeating.states(series) == ["placed", "placed"]


def test_a_second_run_changes_nothing(clock):
    pool = make.pool(gpus=1, recurrenceAhead="5d")
    repeating.blocked(pool, "2026-03-05T15:00")
    series = repeating.opened(pool, "FREQ=DAILY")
    before = list(Reservation.objects.order_by("pk").values())
    events = Event.objects.count()
    assert repeating.look(series.pk) is not None
    assert list(Reservation.objects.order_by("pk").values()) == before
    assert Event.objects.count() == events


@pytest.mark.parametrize("booked", [1, 2])
def test_a_worker_that_dies_between_occurrences_leaves_no_hole_and_no_double(clock, booked):
    left = [booked]

    def die() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    series = repeating.opened(make.pool(), run=False)
    failpoints.arm(Failpoint.OCCURRENCE_TRIED, die)
    with pytest.raises(Killed):
        repeating.look(series.pk)
    assert repeating.states(series).count("placed") == 1 + booked
    failpoints.disarm()
    repeating.look(series.pk)
    assert repeating.states(series) == ["placed"] * 5
    assert repeating.local(series) == [f"03-0{day} 15:00" for day in range(3, 8)]
    assert invariants.violations() == []


def test_a_worker_that_dies_in_the_middle_of_booking_leaves_nothing_of_it(clock):
    def die() -> None:
        raise Killed

    series = repeating.opened(make.pool(), run=False)
    failpoints.arm(Failpoint.PLACEMENT_BOOKED, die)
    with pytest.raises(Killed):
        repeating.look(series.pk)
    assert repeating.states(series) == ["placed", *["draft"] * 4]
    failpoints.disarm()
    repeating.look(series.pk)
    assert repeating.states(series) == ["placed"] * 5
    assert invariants.violations() == []


def test_a_long_outage_leaves_no_hole(clock):
    series = repeating.opened(make.pool(recurrenceAhead="2d"), "FREQ=DAILY;COUNT=8")
    clock.set(repeating.at("2026-03-07T16:00").astimezone(UTC))
    repeating.look(series.pk)
    assert repeating.local(series)[:7] == [f"03-0{day} 15:00" for day in range(3, 10)]
    assert repeating.states(series)[2:7] == ["expired", "expired", "expired", "placed", "placed"]


def test_an_unbooked_occurrence_outlives_a_day_as_a_draft(clock):
    pool = make.pool(quota_gpus=1)
    series = repeating.opened(pool)
    clock.advance("25h")
    for each in repeating.occurrences(series):
        reconciler.reconcile(each.pk, make.fence)
    assert repeating.states(series)[1:] == ["draft"] * 4


@pytest.mark.rule("R19")
def test_spot_gives_way_to_an_occurrence_as_to_any_reservation(clock):
    pool = make.pool(gpus=1)
    spot = repeating.blocked(pool, "2026-03-05T15:00", spot=True)
    series = repeating.opened(pool)
    assert repeating.states(series) == ["placed"] * 5
    spot.refresh_from_db()
    assert spot.state == "pending", "it goes back in line"
    assert repeating.occurrences(series)[2].starts_at == repeating.at("2026-03-05T15:00")
    assert invariants.violations() == []
