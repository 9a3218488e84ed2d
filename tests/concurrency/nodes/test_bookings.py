"""Rivals for one device (C9), on connections of their own."""

import threading
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest
from django.db import OperationalError, connection, transaction

from nodes import bookings, checks
from nodes.models import DeviceBooking
from tests.support import sessions, supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C9")]

Window = dict[str, datetime]


def _book(allocation_id: str, device_ids: list[str], window: Window) -> Callable[[], int]:
    def step() -> int:
        return bookings.book(allocation_id=allocation_id, device_ids=device_ids, **window)

    return step


@pytest.mark.rule("C17")
def test_a_rival_waits_for_the_holder_and_then_yields_without_an_error() -> None:
    (device,) = supply.devices(supply.node(gpus=1))
    window = supply.window()
    with sessions.opened("holder", "rival") as (holder, rival):
        holder.begin()
        assert holder.run(_book("alloc_holder", [device], window)) == 1
        attempt = rival.start(_book("alloc_rival", [device], window))
        attempt.must_block()
        holder.commit()
        assert attempt.result() == 0
    assert DeviceBooking.objects.get().allocation_id == "alloc_holder"


def test_a_rival_gets_the_device_when_the_holder_rolls_back() -> None:
    (device,) = supply.devices(supply.node(gpus=1))
    window = supply.window()
    with sessions.opened("holder", "rival") as (holder, rival):
        holder.begin()
        holder.run(_book("alloc_holder", [device], window))
        attempt = rival.start(_book("alloc_rival", [device], window))
        attempt.must_block()
        holder.rollback()
        assert attempt.result() == 1


@pytest.mark.case(1, 12)
def test_of_many_at_once_exactly_one_gets_the_device() -> None:
    (device,) = supply.devices(supply.node(gpus=1))
    window = supply.window()
    racers = [_book(f"alloc_{number}", [device], window) for number in range(8)]
    assert sorted(sessions.race(*racers)) == [0] * 7 + [1]
    assert checks.overlapping_bookings() == []


@pytest.fixture
def unguarded() -> Iterator[str]:
    """``book`` as it is, on a copy of the table that lacks only the exclusion constraint."""
    with connection.cursor() as cursor:
        # Without indexes, and so without the exclusion constraint, which is one.
        cursor.execute(
            "CREATE TABLE unguarded_bookings (LIKE device_bookings INCLUDING DEFAULTS"
            " INCLUDING IDENTITY INCLUDING CONSTRAINTS)"
        )
    yield bookings.BOOKINGS.texts["book"].replace("device_bookings", "unguarded_bookings")
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE unguarded_bookings")


def test_without_the_constraint_the_same_race_books_twice(unguarded: str) -> None:
    """The negative control: if it fails, the tests above prove nothing."""
    (device,) = supply.devices(supply.node(gpus=1))
    window = supply.window()

    def attempt(allocation_id: str) -> Callable[[], int]:
        def step() -> int:
            # Even with a look before the leap.
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(
                    "SELECT count(*) FROM unguarded_bookings WHERE device_id = %s", [device]
                )
                assert cursor.fetchone() == (0,)
                gate.wait(timeout=sessions.WAIT_SECONDS_MAX)
                parameters = {"device_ids": [device], "allocation_ids": [allocation_id]}
                cursor.execute(unguarded, parameters | window)
                return cursor.rowcount

        return step

    gate = threading.Barrier(2)
    assert sessions.race(attempt("alloc_a"), attempt("alloc_b")) == [1, 1]


def test_gangs_that_name_their_devices_in_opposite_order_do_not_deadlock() -> None:
    first, second = supply.devices(supply.node(gpus=2))
    window = supply.window()
    with sessions.opened("holder", "rival") as (holder, rival):
        holder.begin()
        assert holder.run(_book("alloc_holder", [second, first], window)) == 2
        attempt = rival.start(_book("alloc_rival", [first, second], window))
        attempt.must_block()
        holder.commit()
        assert attempt.result() == 0


def test_a_gang_over_several_allocations_is_sorted_as_one() -> None:
    node = supply.node(gpus=2)
    first, second = sorted(supply.devices(node))
    window = supply.window()
    claims = {"alloc_z": [second], "alloc_a": [first]}
    assert bookings.book_gang(claims=claims, **window) == 2
    order = list(DeviceBooking.objects.order_by("pk").values_list("device_id", flat=True))
    assert order == [first, second]


def test_booked_one_by_one_such_gangs_do_deadlock() -> None:
    """The negative control of sorting."""
    first, second = supply.devices(supply.node(gpus=2))
    window = supply.window()
    with sessions.opened("one", "other") as (one, other):
        one.begin()
        other.begin()
        one.run(_book("alloc_one", [first], window))
        other.run(_book("alloc_other", [second], window))
        crossing = one.start(_book("alloc_one", [second], window))
        crossing.must_block()
        back = other.start(_book("alloc_other", [first], window))
        outcomes = []
        for step in (crossing, back):
            try:
                outcomes.append(step.result())
            except OperationalError as error:
                outcomes.append(type(error.__cause__).__name__)
    assert "DeadlockDetected" in outcomes


def test_ending_a_booking_lets_a_waiting_rival_in() -> None:
    (device,) = supply.devices(supply.node(gpus=1))
    window = supply.window()
    bookings.book(allocation_id="alloc_old", device_ids=[device], **window)
    with sessions.opened("ender", "rival") as (ender, rival):
        ender.begin()
        ender.run(lambda: bookings.truncate(["alloc_old"]))
        attempt = rival.start(_book("alloc_rival", [device], window))
        attempt.must_block()
        ender.commit()
        assert attempt.result() == 1
