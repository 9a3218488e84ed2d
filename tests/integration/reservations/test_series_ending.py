"""How a series ends: by its rule, by whoever may cancel it; and not for want of its owner."""

from datetime import UTC

import pytest

from bettercompute import errors
from bettercompute.iam import accounts, memberships
from outbox.models import Event
from pools import catalogue, quota
from pools.models import Offer, Pool
from reservations import ending, reconciler
from reservations.models import Series
from reservations.series import cancelling, rows
from reservations.series import reconciler as series_reconciler
from tests.support import cast, invariants, make, repeating

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.case(20)]


class Killed(Exception):
    """The worker is gone."""


def test_a_series_ends_with_its_last_occurrence(clock):
    series = repeating.opened(make.pool(), "FREQ=DAILY;UNTIL=20260304")
    assert series.state == "active"
    assert repeating.look(series.pk) == repeating.at("2026-03-04T15:00")
    clock.set(repeating.at("2026-03-04T15:00").astimezone(UTC))
    assert repeating.look(series.pk) is None
    assert Series.objects.get().state == "ended"
    assert Event.objects.filter(type="reservation.series-ended").count() == 1


def test_one_that_is_released_is_not_booked_again(clock):
    series = repeating.opened(make.pool())
    third = repeating.occurrences(series)[2]
    ending.release(cast.caller("bob"), reservation_id=third.pk)
    clock.advance("1d")
    repeating.look(series.pk)
    assert repeating.states(series) == ["placed", "placed", "released", "placed", "placed"]


def test_cancelling_withdraws_what_has_not_begun_and_books_no_more(clock):
    pool = make.pool(recurrenceAhead="5d")
    series = repeating.opened(pool, "FREQ=DAILY")
    first = repeating.occurrences(series)[0]
    clock.set(repeating.at("2026-03-03T15:10").astimezone(UTC))
    make.look(first)
    cancelling.cancel(cast.caller("bob"), series_id=series.pk)
    assert set(repeating.states(series)[1:]) == {"cancelled"}
    assert repeating.states(series)[0] == "binding", "what runs stays"
    series = Series.objects.get()
    assert (series.state, series.next_at) == ("cancelled", None)
    clock.advance("2d")
    assert repeating.look(series.pk) is None
    cancelling.cancel(cast.caller("bob"), series_id=series.pk, release_running=True)
    assert repeating.states(series)[0] == "released"
    assert Event.objects.filter(type="reservation.series-cancelled").count() == 1
    assert quota.usage(cast.tenant().pk)[0].used == 0
    assert invariants.violations() == []


def test_cancelling_this_and_following_keeps_the_earlier_ones(clock):
    pool = make.pool(gpus=1, recurrenceAhead="6d")
    other = repeating.blocked(pool, "2026-03-04T15:00")
    series = repeating.opened(pool, "FREQ=DAILY")
    cancelling.cancel(
        cast.caller("bob"), series_id=series.pk, since=repeating.at("2026-03-06T15:00")
    )
    assert repeating.states(series)[:4] == ["placed", "draft", "placed", "cancelled"]
    assert set(repeating.states(series)[3:]) == {"cancelled"}
    ending.cancel(cast.caller("alice"), reservation_id=other.pk)
    clock.advance("1h")
    repeating.look(series.pk)
    assert repeating.states(series)[:4] == ["placed", "placed", "placed", "cancelled"]
    assert Series.objects.get().state == "active"
    clock.set(repeating.at("2026-03-05T15:00").astimezone(UTC))
    repeating.look(series.pk)
    cut = Series.objects.get()
    assert cut.cut_at == repeating.at("2026-03-06T15:00")
    assert invariants.violations() == []


def test_a_cancel_that_dies_half_way_is_finished_by_the_next_look(clock, monkeypatch):
    series = repeating.opened(make.pool())

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as broken:
        broken.setattr(cancelling, "withdraw_behind_cut", die)
        with pytest.raises(Killed):
            cancelling.cancel(cast.caller("bob"), series_id=series.pk)
    assert repeating.states(series) == ["placed"] * 5
    assert rows.live_keys() == [series.pk]
    repeating.look(series.pk)
    assert repeating.states(series) == ["cancelled"] * 5
    assert rows.live_keys() == []


@pytest.mark.rule("R38")
def test_a_series_is_ended_by_its_owner_and_by_admins_only(clock):
    series = repeating.opened(make.pool())
    with pytest.raises(errors.AccessDenied):
        cancelling.cancel(cast.caller("carol"), series_id=series.pk)
    with pytest.raises(errors.NotFound):
        cancelling.cancel(cast.caller("mallory"), series_id=series.pk)
    cancelling.cancel(cast.caller("alice"), series_id=series.pk)
    assert repeating.states(series) == ["cancelled"] * 5


@pytest.mark.case(23)
def test_while_nobody_answers_for_it_nothing_is_booked_and_nothing_deleted(clock):
    pool = make.pool(recurrenceAhead="2d")
    series = repeating.opened(pool, "FREQ=DAILY")
    assert repeating.states(series) == ["placed"]
    memberships.remove(cast.account("bob"), cast.tenant())
    clock.advance("1d")
    assert repeating.look(series.pk) == clock.now() + series_reconciler.OWNER_RECHECK
    assert repeating.states(series) == ["placed", "draft"]
    noted = Series.objects.get()
    assert (noted.state, repeating.why(noted)) == ("active", "NoMember")

    memberships.add(cast.account("bob"), cast.tenant())
    repeating.look(series.pk)
    assert repeating.states(series) == ["placed", "placed"]
    assert Series.objects.get().conditions == []


def test_a_pool_that_is_no_longer_offered_books_no_more(clock):
    pool = make.pool(recurrenceAhead="2d")
    catalogue.offer(pool, cast.tenant("globex"))
    make.grant("globex", gpus=8)
    series = repeating.opened(pool, "FREQ=DAILY", who="mallory")
    Offer.objects.all().delete()
    clock.advance("1d")
    repeating.look(series.pk)
    assert repeating.states(series) == ["placed", "draft"]
    assert repeating.why(repeating.occurrences(series)[1]) == "NotFound"


def test_an_occurrence_that_waits_for_a_queued_pool_does_not_begin_late(clock):
    pool = make.pool(gpus=1)
    Pool.objects.update(placer="queued")
    series = repeating.opened(pool, "FREQ=DAILY;COUNT=2")
    assert repeating.states(series) == ["pending", "pending"]
    first = repeating.occurrences(series)[0]
    clock.set(repeating.at("2026-03-03T15:00").astimezone(UTC))
    reconciler.reconcile(first.pk, make.fence)
    assert repeating.states(series) == ["expired", "pending"]
    make.look_at_pool(pool)
    assert repeating.states(series) == ["expired", "placed"]


def test_who_made_it_need_not_be_asked_for_the_disabled(clock):
    """An account that an operator disabled books nothing more."""
    series = repeating.opened(make.pool(recurrenceAhead="2d"), "FREQ=DAILY")
    accounts.change(
        cast.caller("olga"), cast.account("bob"), {"is_active": False, "is_staff": False}
    )
    clock.advance("1d")
    repeating.look(series.pk)
    assert repeating.why(Series.objects.get()) == "AccountDisabled"
    assert repeating.states(series) == ["placed", "draft"]


@pytest.mark.parametrize("which", [1, 2], ids=["unbooked", "booked"])
def test_an_occurrence_that_is_skipped_is_never_booked(clock, which):
    pool = make.pool(gpus=1)
    other = repeating.blocked(pool, "2026-03-04T15:00")
    series = repeating.opened(pool, "FREQ=DAILY;COUNT=3")
    assert repeating.states(series) == ["placed", "draft", "placed"]
    day = repeating.at(f"2026-03-0{3 + which}T15:00")
    for _ in range(2):  # the second changes nothing
        cancelling.skip(cast.caller("bob"), series_id=series.pk, occurrence=day)
    left = {1: ["placed", "expired", "placed"], 2: ["placed", "draft", "cancelled"]}[which]
    assert repeating.states(series) == left
    ending.cancel(cast.caller("alice"), reservation_id=other.pk)
    clock.advance("1h")
    repeating.look(series.pk)
    booked_now = {1: left, 2: ["placed", "placed", "cancelled"]}[which]
    assert repeating.states(series) == booked_now
    assert invariants.violations() == []


def test_what_has_ended_is_not_skipped(clock):
    series = repeating.opened(make.pool())
    first = repeating.occurrences(series)[0]
    clock.set(repeating.at("2026-03-03T15:10").astimezone(UTC))
    make.look(first)
    bob = cast.caller("bob")
    ending.release(bob, reservation_id=first.pk)
    with pytest.raises(errors.InvalidState, match="has ended"):
        cancelling.skip(bob, series_id=series.pk, occurrence=repeating.at("2026-03-03T15:00"))


@pytest.mark.rule("C2")
def test_a_skip_judges_the_version_under_the_lock_of_the_series(clock, monkeypatch):
    """Another change commits between the first look and the lock: what was meant is gone."""
    series = repeating.opened(make.pool())
    bob, day = cast.caller("bob"), repeating.at("2026-03-04T15:00")
    authorise = cancelling._authorise

    def meanwhile(caller, looked_at, asked, **known):
        granted = authorise(caller, looked_at, asked, **known)
        Series.objects.filter(pk=series.pk).update(version=looked_at.version + 1)
        return granted

    monkeypatch.setattr(cancelling, "_authorise", meanwhile)
    with pytest.raises(errors.PreconditionFailed):
        cancelling.skip(
            bob, series_id=series.pk, occurrence=day, if_match=frozenset({series.version})
        )
    assert repeating.states(series) == ["placed"] * len(repeating.states(series))


def test_what_has_begun_or_is_no_occurrence_is_not_skipped(clock):
    series = repeating.opened(make.pool())
    clock.set(repeating.at("2026-03-03T15:10").astimezone(UTC))
    make.look(repeating.occurrences(series)[0])
    bob = cast.caller("bob")
    with pytest.raises(errors.InvalidState):
        cancelling.skip(bob, series_id=series.pk, occurrence=repeating.at("2026-03-03T15:00"))
    with pytest.raises(errors.InvalidInput) as refused:
        cancelling.skip(bob, series_id=series.pk, occurrence=repeating.at("2026-03-04T16:00"))
    assert refused.value.details["errors"][0]["path"] == "occurrence"
    with pytest.raises(errors.AccessDenied):
        cancelling.skip(
            cast.caller("carol"),
            series_id=series.pk,
            occurrence=repeating.at("2026-03-04T15:00"),
        )
