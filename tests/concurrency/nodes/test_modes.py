"""A change of mode against placers (C11), and two machines that claim one card (N9)."""

from collections.abc import Callable

import pytest
from django.db import transaction

from nodes import bookings, checks, devices, eligibility, inventory, registration
from nodes.models import Device, Mode
from tests.support import sessions, supply

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.rule("C11")
def test_a_change_that_waited_for_a_placer_sees_its_booking() -> None:
    node = supply.node(gpus=1)
    (gpu,) = supply.devices(node)
    window = supply.window()
    with sessions.opened("placer", "operator") as (placer, operator):
        placer.begin()
        placer.run(lambda: eligibility.lock(node_ids=[node.pk], device_ids=[gpu]))
        change = operator.start(lambda: devices.set_mode(gpu, mode=Mode.SLOTS, slots=2))
        change.must_block()
        placer.run(lambda: bookings.book(allocation_id="alloc_a", device_ids=[gpu], **window))
        placer.commit()
        with pytest.raises(devices.GpuBooked):
            change.result()
    assert Device.objects.get(pk=gpu).bookable_mode == "whole"


@pytest.mark.rule("C11")
@pytest.mark.rule("C10")
@pytest.mark.case(11)
def test_of_changes_and_placers_at_once_one_kind_wins_and_the_atom_rule_holds() -> None:
    (gpu,) = supply.devices(supply.node(gpus=1))
    window = supply.window()
    racers = [_change(gpu), *(_place(gpu, number, window) for number in range(4)), _change(gpu)]
    outcomes = sessions.race(*racers)
    won = [outcome for outcome in outcomes if outcome is True]
    assert len(won) == 1, outcomes
    assert checks.atom_rule() == []
    assert checks.overlapping_bookings() == []


def _change(gpu: str) -> Callable[[], bool]:
    def step() -> bool:
        try:
            devices.set_mode(gpu, mode=Mode.SLOTS, slots=2)
        except devices.GpuBooked:
            return False
        return True

    return step


def _place(gpu: str, number: int, window: dict[str, object]) -> Callable[[], bool]:
    def step() -> bool:
        with transaction.atomic():
            atom = eligibility.lock(node_ids=[], device_ids=[gpu]).devices[gpu]
            if not atom.eligible:
                return False
            booked = bookings.book(
                allocation_id=f"alloc_{number}",
                device_ids=[gpu],
                **window,  # type: ignore[arg-type]
            )
            return booked == 1

    return step


@pytest.mark.rule("N9")
def test_of_two_machines_that_report_one_card_the_second_is_refused() -> None:
    pool = supply.pool()
    first, second = registration.register(pool.pk, "first"), registration.register(pool.pk, "copy")
    host = supply.host("first", gpus=1)
    with sessions.opened("first", "second") as (one, other):
        one.begin()
        one.run(lambda: inventory.apply(first.pk, host))
        attempt = other.start(lambda: inventory.apply(second.pk, host))
        attempt.must_block()
        one.commit()
        with pytest.raises(inventory.DuplicateIdentity):
            attempt.result()
    assert set(Device.objects.values_list("node_id", flat=True)) == {first.pk}
