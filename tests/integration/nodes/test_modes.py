"""Handing a GPU out another way (C10, C11)."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from bettercompute import clock as clock_module
from bettercompute import errors
from nodes import assignments, bookings, checks, devices
from nodes.assignments import PlannedAssignment
from nodes.models import Device, DeviceBooking, Mode
from tests.conftest import SimulatedClock
from tests.support import supply

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C11")]

TWO_HALVES = [("3g.40gb", 0), ("3g.40gb", 4)]


def _bookable(gpu: str) -> list[str]:
    rows = Device.objects.filter(gpu=gpu, bookable_mode__isnull=False)
    return sorted(rows.values_list("pk", flat=True))


@pytest.mark.rule("N10")
def test_a_change_books_the_card_and_every_atom_for_its_window(clock: SimulatedClock) -> None:
    (gpu,) = supply.devices(supply.node(gpus=1))
    change = devices.set_mode(gpu, mode=Mode.MIG, layout=TWO_HALVES, window_seconds=60)
    assert change.command_id.startswith("cmd_")
    assert _bookable(gpu) == list(change.atom_ids) == [f"{gpu}/m0-3g.40gb", f"{gpu}/m4-3g.40gb"]
    booked = DeviceBooking.objects.filter(allocation_id=change.command_id)
    assert set(booked.values_list("device_id", flat=True)) == {gpu, *change.atom_ids}
    soon = supply.window(timedelta(seconds=59))
    assert bookings.book(allocation_id="alloc_a", device_ids=change.atom_ids, **soon) == 0
    later = supply.window(timedelta(seconds=60))
    assert bookings.book(allocation_id="alloc_a", device_ids=change.atom_ids, **later) == 2


def test_a_booking_now_or_later_blocks_and_is_named_with_its_end() -> None:
    node = supply.node(gpus=1)
    (gpu,) = supply.devices(node)
    planned = PlannedAssignment(
        allocation_id="alloc_next_week",
        owner_key="rsv_next_week",
        node_id=node.pk,
        device_ids=[gpu],
        until=clock_module.now() + timedelta(days=8),
    )
    assignments.plan([planned])
    window = supply.window(timedelta(days=7))
    bookings.book(allocation_id="alloc_next_week", device_ids=[gpu], **window)
    with pytest.raises(devices.GpuBooked) as refused:
        devices.set_mode(gpu, mode=Mode.SLOTS, slots=4)
    assert refused.value.details["blockedBy"] == ["rsv_next_week"]
    assert refused.value.details["lastEnd"] == clock_module.to_ms(window["end"])
    assert _bookable(gpu) == [gpu]


def test_what_is_over_blocks_nobody(clock: SimulatedClock) -> None:
    (gpu,) = supply.devices(supply.node(gpus=1))
    bookings.book(allocation_id="alloc_a", device_ids=[gpu], **supply.window(hours=1))
    clock.advance("1h")
    assert devices.set_mode(gpu, mode=Mode.SLOTS, slots=4).atom_ids == tuple(
        f"{gpu}/s{number}" for number in range(4)
    )
    assert set(Device.objects.filter(kind="slot").values_list("milli", flat=True)) == {250}


def test_a_booking_about_to_end_blocks_also_where_the_process_believes_it_over(
    clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gpu,) = supply.devices(supply.node(gpus=1))
    bookings.book(allocation_id="alloc_a", device_ids=[gpu], **supply.window(hours=1))
    clock.advance(timedelta(minutes=59, seconds=59, milliseconds=500))
    ahead = clock.now() + timedelta(seconds=1)
    monkeypatch.setattr(clock_module, "now", lambda: ahead)
    with pytest.raises(devices.GpuBooked):
        devices.set_mode(gpu, mode=Mode.SLOTS, slots=4)
    assert _bookable(gpu) == [gpu]


def test_a_second_change_waits_for_the_first(clock: SimulatedClock) -> None:
    (gpu,) = supply.devices(supply.node(gpus=1))
    change = devices.set_mode(gpu, mode=Mode.SLOTS, slots=2, window_seconds=60)
    with pytest.raises(devices.GpuBooked) as refused:
        devices.set_mode(gpu, mode=Mode.WHOLE)
    assert refused.value.details["blockedBy"] == [change.command_id]
    clock.advance("60s")
    devices.set_mode(gpu, mode=Mode.WHOLE)
    assert _bookable(gpu) == [gpu]


@pytest.mark.rule("N10")
@pytest.mark.parametrize(
    "layout",
    [[], [("3g.40gb", 0), ("3g.40gb", 4), ("1g.10gb", 6)], [("9g.90gb", 0)], [("1g.10gb", 9)]],
    ids=["nothing", "memory slices taken", "no such profile", "no such place"],
)
def test_a_layout_the_card_cannot_have_is_refused(layout: list[tuple[str, int]]) -> None:
    (gpu,) = supply.devices(supply.node(gpus=1))
    with pytest.raises(errors.InvalidInput):
        devices.set_mode(gpu, mode=Mode.MIG, layout=layout)
    assert _bookable(gpu) == [gpu]


def test_a_gpu_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(errors.NotFound):
        devices.set_mode("GPU-none", mode=Mode.WHOLE)


@pytest.mark.rule("C10")
@pytest.mark.parametrize(
    "attempt",
    [
        "UPDATE devices SET bookable_mode = 'whole' WHERE id = %(gpu)s",
        "UPDATE devices SET mode = 'whole' WHERE id = %(gpu)s",
        "UPDATE devices SET mode = NULL WHERE id = %(gpu)s",
        "UPDATE devices SET bookable_mode = 'slots' WHERE id = %(atom)s",
        "UPDATE devices SET gpu_id = id WHERE id = %(atom)s",
        "UPDATE devices SET mode = 'mig' WHERE id = %(atom)s",
        """INSERT INTO devices SELECT (jsonb_populate_record(devices, jsonb_build_object(
        'id', gpu_id || '/s0', 'kind', 'slot', 'bookable_mode', 'slots'))).*
        FROM devices WHERE id = %(atom)s""",
    ],
    ids=[
        "parent bookable beside its instances",
        "mode changed under bookable instances",
        "parent without a mode",
        "instance bookable as a slot",
        "instance that is its own GPU",
        "instance with a mode",
        "slot beside instances",
    ],
)
def test_the_keys_refuse_whatever_any_code_does(attempt: str) -> None:
    (gpu,) = supply.devices(supply.node(gpus=1))
    change = devices.set_mode(gpu, mode=Mode.MIG, layout=TWO_HALVES)
    parameters = {"gpu": gpu, "atom": change.atom_ids[0]}
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(attempt, parameters)
    assert checks.atom_rule() == []
