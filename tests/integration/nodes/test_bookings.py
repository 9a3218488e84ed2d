"""Bookings of devices in one transaction; rivals are in tests/concurrency/nodes."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from nodes import bookings
from nodes.models import DeviceBooking
from tests.conftest import SimulatedClock
from tests.support import supply

pytestmark = pytest.mark.django_db


@pytest.mark.rule("C9")
def test_two_bookings_of_a_device_never_overlap() -> None:
    first, second = supply.devices(supply.node(gpus=2))
    window = supply.window(hours=2)
    assert bookings.book(allocation_id="alloc_a", device_ids=[first], **window) == 1

    # Only the device that was still free is claimed: the caller sees one row too few.
    assert bookings.book(allocation_id="alloc_b", device_ids=[first, second], **window) == 1
    assert [row.allocation_id for row in DeviceBooking.objects.filter(device=first)] == ["alloc_a"]


@pytest.mark.rule("C9")
@pytest.mark.case(14)
def test_back_to_back_bookings_touch_without_overlap() -> None:
    (device,) = supply.devices(supply.node(gpus=1))
    early, late = supply.window(hours=1), supply.window(timedelta(hours=1), hours=1)
    assert bookings.book(allocation_id="alloc_a", device_ids=[device], **early) == 1
    assert bookings.book(allocation_id="alloc_b", device_ids=[device], **late) == 1


@pytest.mark.rule("C9")
@pytest.mark.parametrize(
    "values",
    [
        "(%(device)s, 'alloc_x', 'empty')",
        "(NULL, 'alloc_x', '[2026-03-02 10:00+00,2026-03-02 11:00+00)')",
        "(%(device)s, 'alloc_x', '[2026-03-02 10:00+00,)')",
        "(%(device)s, 'alloc_x', '[2026-03-02 10:00+00,infinity)')",
        "(%(device)s, 'alloc_x', '[2026-03-02 10:00+00,2026-03-02 11:00+00]')",
    ],
    ids=["empty", "no device", "unbounded", "infinite", "closed"],
)
def test_what_would_slip_past_the_exclusion_constraint_is_refused(values: str) -> None:
    (device,) = supply.devices(supply.node(gpus=1))
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO device_bookings (device_id, allocation_id, during) VALUES {values}",
            {"device": device},
        )


def test_a_truncated_booking_ends_now_and_frees_the_rest(clock: SimulatedClock) -> None:
    (device,) = supply.devices(supply.node(gpus=1))
    window = supply.window(hours=4)
    bookings.book(allocation_id="alloc_a", device_ids=[device], **window)
    ended_at = clock.advance("90m")

    assert bookings.truncate(["alloc_a"]) == 1
    (left,) = bookings.blocking([device], start=window["start"])
    assert (left.start, left.end) == (window["start"], ended_at)
    rest = {"start": ended_at, "end": window["end"]}
    assert bookings.free_between([device], **rest) == [device]
    assert bookings.book(allocation_id="alloc_b", device_ids=[device], **rest) == 1


def test_truncating_at_the_very_start_leaves_no_empty_booking() -> None:
    (device,) = supply.devices(supply.node(gpus=1))
    bookings.book(allocation_id="alloc_a", device_ids=[device], **supply.window())
    bookings.truncate(["alloc_a"])
    assert not DeviceBooking.objects.exists()


def test_truncating_deletes_what_has_not_begun_and_keeps_what_is_over(
    clock: SimulatedClock,
) -> None:
    (device,) = supply.devices(supply.node(gpus=1))
    over, later = supply.window(hours=1), supply.window(timedelta(hours=5), hours=1)
    bookings.book(allocation_id="alloc_a", device_ids=[device], **over)
    bookings.book(allocation_id="alloc_a", device_ids=[device], **later)
    clock.advance("2h")

    assert bookings.truncate(["alloc_a"]) == 1
    (kept,) = bookings.blocking([device], start=over["start"])
    assert (kept.start, kept.end) == (over["start"], over["end"])


def test_truncating_ends_on_a_whole_millisecond(clock: SimulatedClock) -> None:
    (device,) = supply.devices(supply.node(gpus=1))
    window = supply.window(hours=1)
    bookings.book(allocation_id="alloc_a", device_ids=[device], **window)
    clock.advance(timedelta(minutes=1, microseconds=1_234))
    bookings.truncate(["alloc_a"])
    (left,) = bookings.blocking([device], start=window["start"])
    assert left.end == window["start"] + timedelta(minutes=1, milliseconds=1)


def test_blocking_names_every_booking_in_the_window_by_start() -> None:
    first, second = supply.devices(supply.node(gpus=2))
    later, sooner = supply.window(timedelta(hours=3)), supply.window(timedelta(hours=1))
    bookings.book(allocation_id="alloc_later", device_ids=[first], **later)
    bookings.book(allocation_id="alloc_sooner", device_ids=[second], **sooner)

    found = bookings.blocking([first, second], start=supply.window()["start"])
    assert [each.allocation_id for each in found] == ["alloc_sooner", "alloc_later"]
    # The window is half-open: what begins when it ends is not in it.
    assert bookings.blocking([first], **supply.window(timedelta(hours=2), hours=1)) == []


def test_an_empty_window_is_our_own_mistake() -> None:
    (device,) = supply.devices(supply.node(gpus=1))
    start = supply.window()["start"]
    with pytest.raises(AssertionError):
        bookings.book(allocation_id="alloc_a", device_ids=[device], start=start, end=start)
