"""Ways around one's person that an agent could try, and that lead nowhere (R36)."""

import pytest

from reservations import ending, queries
from reservations.confirming import asking, deciding, rows
from reservations.models import Confirmation, Reservation
from reservations.series import cancelling
from tests.support import cast, delegates, make
from tests.support.delegates import CREATE, RELEASE, create, refused

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R36")]


@pytest.fixture
def alice():
    return cast.caller("alice")


def test_what_begins_to_matter_between_look_and_lock_is_not_done_unasked(alice, monkeypatch):
    """At the look nothing would have come of it, so nobody was asked; at the lock it ends work."""
    agent, pool = delegates.agent("alice", CREATE, RELEASE), make.pool()
    confirmation = refused(lambda: create(agent, pool))
    deciding.approve(alice, confirmation_id=confirmation.pk)
    waiting, look = confirmation.resource_id, queries.access

    def look_just_before_it_is_placed(who, reservation_id):
        found = look(who, reservation_id)
        create(agent, pool)
        return found

    monkeypatch.setattr(queries, "access", look_just_before_it_is_placed)
    with pytest.raises(asking.ApprovalGone):
        ending.release(agent.caller, reservation_id=waiting)
    assert Reservation.objects.get().state == "placed"
    monkeypatch.undo()
    refused(lambda: ending.release(agent.caller, reservation_id=waiting))


def test_what_still_runs_of_a_cancelled_series_is_not_released_unasked(clock, alice):
    agent, pool = delegates.agent("alice", RELEASE), make.pool()
    series_id = make.series(alice, pool)
    clock.advance("1d")
    cancelling.cancel(alice, series_id=series_id)
    running = Reservation.objects.filter(series_id=series_id, state="placed")
    assert running.count() == 1

    def release():
        cancelling.cancel(agent.caller, series_id=series_id, release_running=True)

    confirmation = refused(release)
    cancelling.cancel(agent.caller, series_id=series_id)
    assert running.count() == 1
    deciding.approve(alice, confirmation_id=confirmation.pk)
    release()
    assert running.count() == 0
    assert Confirmation.objects.get().state == "used"


def test_an_agent_asks_so_much_at_once_and_no_more(alice):
    """Whoever floods its person with questions is not answered better."""
    agent, pool = delegates.agent("alice", CREATE), make.pool()
    asked = [refused(lambda key=key: create(agent, pool, f"k{key}")) for key in range(20)]
    with pytest.raises(rows.TooManyQuestions):
        create(agent, pool, "more")
    assert Confirmation.objects.count() == 20
    refused(lambda: create(agent, pool, "k0"))
    refused(lambda: create(delegates.agent("alice", CREATE, name="other"), pool, "other"))
    deciding.deny(alice, confirmation_id=asked[0].pk)
    refused(lambda: create(agent, pool, "more"))
