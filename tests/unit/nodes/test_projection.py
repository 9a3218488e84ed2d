"""What an inventory means as rows, and what changes by it; no database."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.agent.inventory import Gpu, Health, HostInventory, MigInstance, MigMode
from nodes import projection
from nodes.models import Mode
from nodes.projection import DeviceRow

NODE = "node_a"


def _gpu(index: int, *, mig: bool = False, healthy: bool = True) -> Gpu:
    uuid = f"GPU-{index}"
    instances = [
        MigInstance(atom_id=f"{uuid}/m{start}-1g.10gb", profile="1g.10gb", start=start, size=1)
        for start in range(2)
    ]
    return Gpu(
        uuid=uuid,
        index=index,
        model="NVIDIA H100 80GB HBM3",
        model_class="H100",
        memory_mib=81_559,
        pci_bus_id=f"0000:{index:02x}:00.0",
        mig=MigMode.ENABLED if mig else MigMode.DISABLED,
        mig_instances=tuple(instances) if mig else (),
        health=Health.HEALTHY if healthy else Health.UNHEALTHY,
        health_reason="" if healthy else "Xid 79",
    )


def _rows(*gpus: Gpu) -> list[DeviceRow]:
    return projection.rows_of(NODE, HostInventory(gpus=gpus))


hosts = st.lists(
    st.builds(_gpu, st.integers(0, 5), mig=st.booleans(), healthy=st.booleans()),
    max_size=4,
    unique_by=lambda gpu: gpu.uuid,
)


def _apply(stored: list[DeviceRow], changes: projection.Changes) -> list[DeviceRow]:
    after = {row.id: row for row in stored} | {row.id: row for row in changes.rows}
    return list(after.values())


@pytest.mark.rule("C10")
@given(st.lists(hosts, min_size=1, max_size=5), st.frozensets(st.integers(0, 5)))
def test_safety_no_atom_is_ever_bookable_in_another_mode_than_its_gpu(
    reports: list[list[Gpu]], booked: frozenset[int]
) -> None:
    stored: list[DeviceRow] = []
    for gpus in reports:
        booked_gpus = frozenset(f"GPU-{index}" for index in booked)
        changes = projection.compare(stored, _rows(*gpus), booked_gpus=booked_gpus)
        stored = _apply(stored, changes)
        modes = {row.id: row.mode for row in stored}
        assert all(row.bookable_mode in (None, modes[row.gpu_id]) for row in stored)


@given(hosts, hosts)
def test_the_same_report_twice_changes_nothing_the_second_time(
    first: list[Gpu], second: list[Gpu]
) -> None:
    stored = _apply([], projection.compare([], _rows(*first), booked_gpus=frozenset()))
    stored = _apply(stored, projection.compare(stored, _rows(*second), booked_gpus=frozenset()))
    assert projection.compare(stored, _rows(*second), booked_gpus=frozenset()).rows == ()


@given(hosts, hosts)
def test_nothing_that_was_stored_ever_disappears(first: list[Gpu], second: list[Gpu]) -> None:
    stored = _apply([], projection.compare([], _rows(*first), booked_gpus=frozenset()))
    after = _apply(stored, projection.compare(stored, _rows(*second), booked_gpus=frozenset()))
    assert {row.id for row in stored} <= {row.id for row in after}


@given(hosts)
def test_a_booked_gpu_keeps_its_mode_whatever_the_host_reports(gpus: list[Gpu]) -> None:
    stored = _rows(_gpu(0))
    changes = projection.compare(stored, _rows(*gpus), booked_gpus=frozenset({"GPU-0"}))
    (card,) = (row for row in _apply(stored, changes) if row.id == "GPU-0")
    assert (card.mode, card.bookable_mode) == (Mode.WHOLE, Mode.WHOLE)


def test_slots_outlive_reports_that_know_nothing_of_them_and_share_their_cards_health() -> None:
    (card,) = _rows(_gpu(0))
    slot = replace(card, id="GPU-0/s0", kind="slot", mode=None, bookable_mode=Mode.SLOTS, milli=250)
    stored = [replace(card, mode=Mode.SLOTS, bookable_mode=None), slot]
    assert projection.compare(stored, _rows(_gpu(0)), booked_gpus=frozenset()).rows == ()

    ill = projection.compare(stored, _rows(_gpu(0, healthy=False)), booked_gpus=frozenset())
    assert {row.id: (row.healthy, row.health_reason) for row in ill.rows} == {
        "GPU-0": (False, "Xid 79"),
        "GPU-0/s0": (False, "Xid 79"),
    }
    assert ill.failed == {"GPU-0": "Xid 79"}
    well = projection.compare(_apply(stored, ill), _rows(_gpu(0)), booked_gpus=frozenset())
    assert well.recovered == ("GPU-0",)
    assert well.gained


def test_an_inventory_that_only_takes_away_gains_nothing() -> None:
    stored = _rows(_gpu(0), _gpu(1))
    changes = projection.compare(stored, _rows(_gpu(0)), booked_gpus=frozenset())
    assert not changes.gained
    assert changes.failed == {"GPU-1": "not reported"}


@pytest.mark.rule("R30")
@pytest.mark.parametrize(
    ("model", "profile", "milli"),
    [
        ("H100", "1g.10gb", 142),
        ("H100", "3g.40gb", 428),
        ("H100", "7g.80gb", 1000),
        ("A30", "1g.6gb", 250),
        ("A30", "4g.24gb", 1000),
        ("Unheard-of", "1g.10gb", 142),
        ("H100", "odd", 142),
    ],
)
def test_a_mig_instance_counts_its_share_of_the_compute_slices(
    model: str, profile: str, milli: int
) -> None:
    assert projection.mig_milli(model, profile) == milli
