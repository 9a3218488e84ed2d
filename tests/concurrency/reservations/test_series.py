"""Series under several hands: workers that meet, and a cancel while an occurrence is booked."""

import threading

import pytest

from bettercompute import failpoints
from bettercompute.failpoints import Failpoint
from pools import quota
from reservations.models import Series
from reservations.series import cancelling
from reservations.series import reconciler as series_reconciler
from tests.support import cast, invariants, make, races, repeating, sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.case(20)]

MEET_SECONDS = 0.5


def reconcile(series: Series) -> None:
    series_reconciler.reconcile(series.pk, make.fence)


def test_workers_that_meet_at_one_series_book_each_occurrence_once(clock):
    """A worker whose lease was taken over may still be at it."""
    series = repeating.opened(make.pool(), "FREQ=DAILY;COUNT=8", run=False)
    deadlocks = races.deadlocks()
    work = [races.Operation("reconcile", lambda: reconcile(series)) for _ in range(8)]
    outcomes = races.crowd(work, connections=4)
    assert [str(each) for each in outcomes if each.unexpected] == []
    repeating.look(series.pk)
    assert repeating.states(series) == ["placed"] * 8
    assert races.deadlocks() == deadlocks
    assert invariants.violations() == []


def test_a_cancel_withdraws_what_is_being_booked_meanwhile(clock):
    """It begins when the bookings are written, before these are committed."""
    series = repeating.opened(make.pool(), run=False)
    booked, through = threading.Event(), threading.Event()

    def pause() -> None:
        booked.set()
        through.wait(MEET_SECONDS)  # in vain: the cancel waits for the row

    def cancel() -> None:
        assert booked.wait(20)
        failpoints.disarm()
        cancelling.cancel(cast.caller("bob"), series_id=series.pk)
        through.set()

    failpoints.arm(Failpoint.PLACEMENT_BOOKED, pause)
    outcome = sessions.race(lambda: reconcile(series), cancel)
    assert outcome == [None, None]
    assert set(repeating.states(series)) <= {"cancelled", "expired"}
    assert quota.usage(cast.tenant().pk)[0].used == 0
    assert invariants.violations() == []
