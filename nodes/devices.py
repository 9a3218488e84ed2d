"""How a GPU is handed out: whole, in MIG instances, or in slots (C10, C11, N10)."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from bettercompute import clock, errors, ids, sql
from bettercompute.agent import inventory as reported
from nodes import assignments, bookings, layouts, notices, projection
from nodes.models import DeviceKind, Mode
from nodes.projection import DeviceRow

DEVICES = sql.load(__package__, "devices")
INVENTORY = sql.load(__package__, "inventory")

CHANGE_SECONDS_DEFAULT = 600
SLOTS_MAX = 64


class GpuBooked(errors.Conflict):
    """Something on this GPU is booked now or later, so its mode cannot change."""


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A change of mode under way: everything on the GPU is booked for it until ``until``."""

    command_id: str
    gpu_id: str
    atom_ids: tuple[str, ...]
    until: datetime


@transaction.atomic
def set_mode(
    gpu_id: str,
    *,
    mode: Mode,
    layout: Sequence[tuple[str, int]] = (),
    slots: int = 0,
    window_seconds: int = CHANGE_SECONDS_DEFAULT,
) -> ModeChange:
    """Hand the GPU out another way, once nothing on it is booked now or later (C11).

    1. Lock every row of the GPU ``FOR UPDATE``; a placer holds what it chose ``FOR SHARE``.
    2. Look for any booking that ends later than now, which a waiting lock now lets us see.
    3. Write the new mode and atoms in one statement, as C10's keys need.
    4. Book all of it, the card and old atoms included, for the time of the change.

    ``layout`` are (profile, start) pairs, for MIG; ``slots`` how many, for slots.

    Raises:
        GpuBooked: ``details`` has the owners that block and when the last booking ends.
        errors.InvalidInput: the card cannot be cut so.
    """
    stored = _lock_gpu(gpu_id)
    # The database's own instant: by a process clock that is a little ahead, a booking about to end
    # would seem over here and be in the way below.
    (start,) = DEVICES.one("this_millisecond") or (None,)
    assert start is not None
    _refuse_if_booked(gpu_id, [row.id for row in stored], start)
    card = next(row for row in stored if row.id == gpu_id)
    atoms = _atoms(card, mode, layout, slots)
    after = {row.id: replace(row, bookable_mode=None) for row in stored}
    after |= {row.id: row for row in atoms}
    bookable = Mode.WHOLE if mode == Mode.WHOLE else None
    after[gpu_id] = replace(card, mode=mode, bookable_mode=bookable)
    rows = list(after.values())
    INVENTORY.run("write_devices", rows=json.dumps([asdict(row) for row in rows]))
    change = _book_change(gpu_id, rows, start, window_seconds)
    notices.wake(changed=[card.node_id], gained=[card.node_id])
    notices.publish_of_devices("device.mode-changed", card.node_id, {gpu_id: mode})
    return change


def _lock_gpu(gpu_id: str) -> list[DeviceRow]:
    found = DEVICES.all("lock_gpu", gpu_id=gpu_id)
    rows = [replace(DeviceRow(*row), attributes=json.loads(row[-1])) for row in found]
    if not rows:
        raise errors.NotFound(f"There is no GPU {gpu_id}.")
    return rows


def _refuse_if_booked(gpu_id: str, device_ids: list[str], start: datetime) -> None:
    blocking = bookings.blocking(device_ids, start=start)
    if not blocking:
        return
    owners = assignments.owners_of(booking.allocation_id for booking in blocking)
    names = sorted({owners.get(each.allocation_id, each.allocation_id) for each in blocking})
    last = max(each.end for each in blocking)
    raise GpuBooked(
        f"{gpu_id} is booked by {', '.join(names[:5])} until {last.isoformat()}.",
        blockedBy=names,
        lastEnd=clock.to_ms(last),
    )


def _atoms(
    card: DeviceRow, mode: Mode, layout: Sequence[tuple[str, int]], slots: int
) -> list[DeviceRow]:
    match mode:
        case Mode.WHOLE:
            return []
        case Mode.MIG:
            return _instances(card, layout)
        case Mode.SLOTS:
            return _slots(card, slots)


def _instances(card: DeviceRow, layout: Sequence[tuple[str, int]]) -> list[DeviceRow]:
    try:
        legal = layouts.is_legal(card.model, layout, memory_mib=card.memory_mib)
        known = layouts.card(card.model, memory_mib=card.memory_mib)
    except layouts.UnknownCard as error:
        raise errors.InvalidInput.at("layout", str(error)) from error
    if not layout or not legal:
        words = ", ".join(f"{profile} at {start}" for profile, start in layout) or "nothing"
        raise errors.InvalidInput.at("layout", f"a {known.name} cannot be cut into {words}")
    sizes = {profile.name: profile.size for profile in known.profiles}
    return [
        _atom(
            card,
            reported.mig_atom_id(card.id, start=start, profile=profile),
            DeviceKind.MIG,
            Mode.MIG,
            profile=profile,
            memory_mib=card.memory_mib * sizes[profile] // known.grid_units,
            milli=projection.mig_milli(card.model, profile),
            attributes={"start": start, "size": sizes[profile]},
        )
        for profile, start in layout
    ]


def _slots(card: DeviceRow, slots: int) -> list[DeviceRow]:
    if not 2 <= slots <= SLOTS_MAX:
        raise errors.InvalidInput.at("slots", f"2 to {SLOTS_MAX}, not {slots}")
    return [
        _atom(
            card,
            f"{card.id}/s{number}",
            DeviceKind.SLOT,
            Mode.SLOTS,
            memory_mib=card.memory_mib,  # time is shared, memory is not divided
            milli=projection.MILLI // slots,
            attributes={"slot": number, "of": slots},
        )
        for number in range(slots)
    ]


def _atom(card: DeviceRow, atom_id: str, kind: DeviceKind, mode: Mode, **values: Any) -> DeviceRow:
    return replace(card, id=atom_id, kind=kind, mode=None, bookable_mode=mode, **values)


def _book_change(
    gpu_id: str, rows: list[DeviceRow], start: datetime, window_seconds: int
) -> ModeChange:
    command_id = ids.new("cmd")
    until = start + timedelta(seconds=window_seconds)
    device_ids = [row.id for row in rows]
    booked = bookings.book(allocation_id=command_id, device_ids=device_ids, start=start, end=until)
    assert booked == len(device_ids), "every row is locked and free (C11)"
    atoms = tuple(sorted(row.id for row in rows if row.bookable_mode is not None))
    return ModeChange(command_id, gpu_id, atoms, until)
