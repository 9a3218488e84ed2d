from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bettercompute.states import RESERVATION, ReservationState
from reservations import moments
from reservations.moments import Schedule

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
PLACED = Schedule(
    state=ReservationState.PLACED,
    created_at=NOW - HOUR,
    starts_at=NOW + HOUR,
    ends_at=NOW + 2 * HOUR,
    lease_until=None,
    bind_deadline=None,
    confirm_until=None,
    pending_until=None,
)


@pytest.mark.rule("R24")
def test_a_placed_one_is_looked_at_a_quarter_hour_before_its_start_and_at_it():
    first = moments.next_look(PLACED, NOW)
    assert first == NOW + timedelta(minutes=45)
    assert moments.next_look(PLACED, first) == PLACED.starts_at


@pytest.mark.rule("R18")
def test_one_that_could_not_be_repaired_is_tried_again_each_minute_until_its_start():
    degraded = replace(PLACED, starts_at=NOW + timedelta(seconds=90), degraded=True)
    first = moments.next_look(degraded, NOW)
    assert first == NOW + timedelta(minutes=1)
    assert moments.next_look(degraded, first) == degraded.starts_at


@pytest.mark.rule("R24")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"state": ReservationState.BINDING, "bind_deadline": NOW + timedelta(minutes=5)}, 5),
        ({"state": ReservationState.ACTIVE}, 15),
        ({"state": ReservationState.ACTIVE, "lease_until": NOW + timedelta(minutes=3)}, 3),
        ({"state": ReservationState.ACTIVE, "no_show_at": NOW + timedelta(minutes=7)}, 7),
        ({"state": ReservationState.ACTIVE, "no_show_at": NOW - HOUR}, 5 / 60),  # held off (C38)
        ({"state": ReservationState.ACTIVE, "ends_at": NOW + timedelta(minutes=20)}, 5),
        ({"state": ReservationState.PENDING, "pending_until": NOW + HOUR}, 0.5),
        ({"state": ReservationState.PENDING, "lost_to_rivals": True}, 1 / 60),
    ],
)
def test_the_first_moment_that_matters_is_next(change, expected):
    found = moments.next_look(replace(PLACED, **change), NOW)
    assert found == NOW + timedelta(minutes=expected)


@pytest.mark.rule("R24", "C27")
def test_what_is_overdue_is_due_now():
    overdue = replace(PLACED, starts_at=NOW - HOUR, ends_at=NOW - timedelta(minutes=1))
    assert moments.next_look(overdue, NOW) == NOW


@pytest.mark.rule("R23")
@pytest.mark.parametrize("state", sorted(RESERVATION.terminal))
def test_an_ended_one_is_not_looked_at(state):
    assert moments.next_look(replace(PLACED, state=ReservationState(state)), NOW) is None
