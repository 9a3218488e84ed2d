"""Each change of a reservation is told once, in order, with its state, pool and reason (R25)."""

from typing import Any

import pytest

from nodes.models import ReportedState
from outbox.models import Event
from reservations import ending
from reservations.models import Reservation
from tests.conftest import SimulatedClock
from tests.support import cast, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R25")]


def told(reservation: Reservation) -> list[str]:
    """What was told of it, in order; each says its pool and a state that it was in."""
    events = Event.objects.filter(subject=f"reservation/{reservation.pk}").order_by("seq")
    assert {each.data["poolId"] for each in events} == {reservation.pool_id}
    assert all(each.data["state"] for each in events)
    return [each.type.removeprefix("reservation.") for each in events]


def last(reservation: Reservation) -> dict[str, Any]:
    event = Event.objects.filter(subject=f"reservation/{reservation.pk}").latest("seq")
    data: dict[str, Any] = event.data
    return data


def test_a_life_from_placed_to_released() -> None:
    made = make.active(cast.caller("alice"), make.pool(), duration="8h")
    assert told(made) == ["placed", "binding", "active"]
    ending.release(cast.caller("alice"), reservation_id=made.pk)
    assert told(made) == ["placed", "binding", "active", "released"]
    assert (last(made)["state"], last(made)["reason"]) == ("released", "release")


def test_who_lines_up_is_told_as_queued_first() -> None:
    pool = make.pool()
    pool.placer = "queued"
    pool.save()
    made = make.reservation(cast.caller("alice"), pool)
    assert told(made) == ["queued"]
    make.look_at_pool(pool)
    assert told(made) == ["queued", "placed"]


def test_who_waits_in_vain_expires(clock: SimulatedClock) -> None:
    made = make.reservation(cast.caller("alice"), make.pool(maxPending="1d"), gpus=9)
    assert told(made) == ["pending"]
    clock.advance("1d")
    make.look(made)
    assert told(made) == ["pending", "expired"]


def test_who_is_withdrawn_is_cancelled(clock: SimulatedClock) -> None:
    alice = cast.caller("alice")
    made = make.reservation(alice, make.pool(), start=clock.now_ms() + 3_600_000)
    ending.cancel(alice, reservation_id=made.pk)
    assert told(made) == ["placed", "cancelled"]


def test_what_fails_to_bind_a_third_time_fails() -> None:
    made = make.look(make.reservation(cast.caller("alice"), make.pool()))
    for _ in range(3):
        make.report(made, ReportedState.FAILED, reason="no such device")
        made = make.look(made)
    again = ["pending", "placed", "binding"]
    assert told(made) == ["placed", "binding", *again, *again, "failed"]
    assert (last(made)["state"], last(made)["reason"]) == ("failed", "bind-failed")
