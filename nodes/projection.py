"""What a reported inventory means as rows of ``devices``, and what changes by it. Pure.

A card that is not partitioned is one atom, itself. A card in MIG mode is not bookable; its
instances are. A card that we share in slots stays so whatever the driver says of sharing: slots
are ours, not the driver's, and follow the health of their card.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bettercompute.agent.inventory import Gpu, Health, HostInventory, MigInstance, MigMode
from nodes import layouts
from nodes.models import DeviceKind, Mode

MILLI = 1_000
SLICES_DEFAULT = 7  # compute slices of every card with MIG but the smallest
NOT_REPORTED = "not reported"
RESET_REQUIRED = "reset required: MIG mode is pending"
CHANGED_WHILE_BOOKED = "mode changed outside of us while booked"


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A row of ``devices`` as far as inventories decide it."""

    id: str
    node_id: str
    gpu_id: str
    kind: str
    mode: str | None
    bookable_mode: str | None
    model: str
    product: str
    profile: str
    memory_mib: int
    milli: int
    index: int
    numa_node: int | None
    nvlink_group: int | None
    driver: str
    healthy: bool
    health_reason: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """What an inventory changes: rows to write, and what there is to tell."""

    rows: tuple[DeviceRow, ...]
    failed: Mapping[str, str]  # GPUs that became unhealthy, with the reason
    recovered: tuple[str, ...]  # GPUs that became healthy
    gained: bool  # something may be booked that could not be before


def rows_of(node_id: str, host: HostInventory) -> list[DeviceRow]:
    """Every row of this host, cards before their instances."""
    groups = {name: number for number, name in enumerate(sorted(_nvlink_groups(host)))}
    rows: list[DeviceRow] = []
    for gpu in host.gpus:
        card = _card(node_id, host, gpu, groups)
        rows.append(card)
        rows += [_instance(card, each) for each in gpu.mig_instances if card.mode == Mode.MIG]
    return rows


def compare(
    stored: Iterable[DeviceRow], reported: Sequence[DeviceRow], *, booked_gpus: frozenset[str]
) -> Changes:
    """What turns the stored rows of one node into the reported ones.

    ``booked_gpus`` are cards with a booking that is not over: they keep the mode they are booked
    in, and are unhealthy where the host contradicts it.
    """
    before = {row.id: row for row in stored}
    after = {row.id: row for row in _settled(before, reported, booked_gpus)}
    for row_id, row in before.items():
        if row_id not in after:
            after[row_id] = _missing(row, after)
    changed = [row for row_id, row in sorted(after.items()) if before.get(row_id) != row]
    return Changes(
        rows=tuple(changed),
        failed={
            row.id: row.health_reason
            for row in changed
            if row.kind == DeviceKind.GPU and not row.healthy and _was_healthy(before, row)
        },
        recovered=tuple(
            row.id
            for row in changed
            if row.kind == DeviceKind.GPU and row.healthy and not _was_healthy(before, row)
        ),
        gained=any(_bookable(row) and not _bookable(before.get(row.id)) for row in changed),
    )


def _settled(
    before: Mapping[str, DeviceRow], reported: Sequence[DeviceRow], booked: frozenset[str]
) -> list[DeviceRow]:
    """The reported rows, where the mode of each card is settled between the host and us."""
    kept: set[str] = set()  # cards whose mode stays as stored, against the report
    settled: list[DeviceRow] = []
    for row in reported:
        stored = before.get(row.id)
        if row.kind != DeviceKind.GPU or stored is None or stored.mode == row.mode:
            if row.gpu_id not in kept:
                settled.append(row)
        elif stored.mode == Mode.SLOTS and row.mode == Mode.WHOLE:
            settled.append(replace(row, mode=stored.mode, bookable_mode=None))
        elif row.id in booked:
            kept.add(row.id)
            settled.append(
                replace(
                    row,
                    mode=stored.mode,
                    bookable_mode=stored.bookable_mode,
                    healthy=False,
                    health_reason=CHANGED_WHILE_BOOKED,
                )
            )
        else:
            settled.append(row)
    return settled


def _missing(row: DeviceRow, after: Mapping[str, DeviceRow]) -> DeviceRow:
    """A stored row that the host did not report: kept, since bookings may name it."""
    card = after.get(row.gpu_id)
    if card is None or row.kind == DeviceKind.GPU:
        return replace(row, healthy=False, health_reason=NOT_REPORTED)
    if row.kind == DeviceKind.SLOT and card.mode == Mode.SLOTS:
        return replace(row, healthy=card.healthy, health_reason=card.health_reason)
    bookable = row.bookable_mode if row.bookable_mode == card.mode else None
    return replace(row, healthy=False, health_reason=NOT_REPORTED, bookable_mode=bookable)


def _card(node_id: str, host: HostInventory, gpu: Gpu, groups: Mapping[str, int]) -> DeviceRow:
    mode = Mode.MIG if gpu.mig == MigMode.ENABLED else Mode.WHOLE
    pending = gpu.mig == MigMode.PENDING
    healthy = gpu.health == Health.HEALTHY and not pending
    return DeviceRow(
        id=gpu.uuid,
        node_id=node_id,
        gpu_id=gpu.uuid,
        kind=DeviceKind.GPU,
        mode=mode,
        bookable_mode=Mode.WHOLE if mode == Mode.WHOLE else None,
        model=gpu.model_class,
        product=gpu.model,
        profile="",
        memory_mib=gpu.memory_mib,
        milli=MILLI,
        index=gpu.index,
        numa_node=gpu.numa_node,
        nvlink_group=groups.get(gpu.nvlink_group or ""),
        driver=host.driver_version,
        healthy=healthy,
        health_reason=""
        if healthy
        else gpu.health_reason or (RESET_REQUIRED if pending else "unhealthy"),
        attributes=_attributes(gpu),
    )


def _instance(card: DeviceRow, instance: MigInstance) -> DeviceRow:
    return replace(
        card,
        id=instance.atom_id,
        kind=DeviceKind.MIG,
        mode=None,
        bookable_mode=Mode.MIG,
        profile=instance.profile,
        memory_mib=instance.memory_mib,
        milli=mig_milli(card.model, instance.profile),
        attributes={
            "start": instance.start,
            "size": instance.size,
            "uuids": [uuid for uuid in (instance.uuid, *instance.compute_uuids) if uuid],
        },
    )


def mig_milli(model: str, profile: str) -> int:
    """Thousandths of a card that a MIG instance is: its share of the compute slices, at least 1."""
    try:
        slices = max(each.compute_slices for each in layouts.card(model).profiles)
    except layouts.UnknownCard:
        slices = SLICES_DEFAULT
    match = re.match(r"(\d+)g\.", profile)
    share = MILLI * int(match[1]) // slices if match else MILLI // slices
    return min(max(share, 1), MILLI)


def _attributes(gpu: Gpu) -> dict[str, Any]:
    known: dict[str, Any] = {
        "pciBusId": gpu.pci_bus_id,
        "serial": gpu.serial,
        "minor": gpu.minor,
        "cpulist": gpu.cpulist,
        "nvlinks": list(gpu.nvlinks),
        "unreported": dict(gpu.unreported),
    }
    return {**gpu.attributes, **{name: value for name, value in known.items() if value}}


def _nvlink_groups(host: HostInventory) -> set[str]:
    return {gpu.nvlink_group for gpu in host.gpus if gpu.nvlink_group}


def _bookable(row: DeviceRow | None) -> bool:
    return row is not None and row.bookable_mode is not None and row.healthy


def _was_healthy(before: Mapping[str, DeviceRow], row: DeviceRow) -> bool:
    # A card seen for the first time counts as healthy before, so only its failing is news.
    stored = before.get(row.id)
    return stored is None or stored.healthy
