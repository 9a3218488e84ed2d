"""One version of a reservation is one answer: no ETag hides a change (C2)."""

import json

import pytest

from nodes.models import Assignment, ReportedState
from reservations import ending
from reservations.models import Reservation
from tests.conftest import SimulatedClock
from tests.support import cast, make

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C2")]


class Watch:
    """Reads it like a client after every step, and remembers what each ETag stood for."""

    def __init__(self, reservation: Reservation) -> None:
        self.reservation = reservation
        self.api = cast.api("alice")
        self.seen: dict[str, object] = {}
        self.states: list[str] = []

    def look(self) -> None:
        """A client's get."""
        answer = self.api.get(f"/reservations/{self.reservation.pk}")
        shown = json.loads(answer.content)
        assert answer["ETag"] == f'"{shown["version"]}"'
        assert self.seen.setdefault(answer["ETag"], shown) == shown
        parts = sorted(allocation["state"] for allocation in shown["allocations"])
        self.states.append(f"{shown['state']}: {' '.join(parts)}")

    def step(self) -> None:
        """The reconciler's turn, then a client's."""
        make.look(self.reservation)
        self.look()


def say(assignment: Assignment, state: ReportedState) -> None:
    """One node's report."""
    assignment.reported = state
    assignment.report = make._bound(assignment) if state == ReportedState.BOUND else {}
    assignment.save()


def test_every_change_of_a_gang_is_a_version(clock: SimulatedClock) -> None:
    pool = make.pool(nodes=3, gpus=2)
    alice = cast.caller("alice")
    made = make.reservation(alice, pool, gpus=2, gang={"nodes": 3})
    watch = Watch(made)
    watch.look()
    watch.step()
    parts = list(Assignment.objects.filter(owner_key=made.pk).order_by("allocation_id"))
    assert len(parts) == 3
    for part in parts:
        say(part, ReportedState.BOUND)
        watch.step()
    for part in parts[:2]:
        say(part, ReportedState.RELEASED)  # it lost what it should hold
        watch.step()
    for part in parts[:2]:
        say(part, ReportedState.BOUND)
        watch.step()
    ending.release(alice, reservation_id=made.pk)
    watch.look()
    for part in parts:
        part.refresh_from_db()
        say(part, ReportedState.RELEASED)
        watch.step()
    assert watch.states == [
        "placed: placed placed placed",
        "binding: binding binding binding",
        "binding: binding binding bound",
        "binding: binding bound bound",
        "active: bound bound bound",
        "active: binding bound bound",
        "active: binding binding bound",
        "active: binding bound bound",
        "active: bound bound bound",
        "released: releasing releasing releasing",
        "released: released releasing releasing",
        "released: released released releasing",
        "released: released released released",
    ]


def test_looking_without_a_change_makes_no_version(clock: SimulatedClock) -> None:
    active = make.active(cast.caller("alice"), make.pool())
    for _ in range(3):
        make.look(active)
    assert Reservation.objects.get(pk=active.pk).version == active.version
