"""Whose time it is: a pool's bookings as one tenant may see them, and what ids are called."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from django.urls import reverse

from bettercompute import sql
from bettercompute.iam.callers import Caller
from bettercompute.pages import parts, timeline
from bettercompute.pages.timeline import Whose
from bettercompute.wire.reservations import Reservation
from nodes import maintenance
from nodes.maintenance import Window
from reservations.pages.presentation import Names

CALENDAR = sql.load(__package__, "calendar")


def bookings(
    caller: Caller, pool_id: str, *, start: datetime, end: datetime
) -> list[timeline.Booking]:
    """Bookings that touch the window; another tenant's tell when, and nothing else."""
    rows = CALENDAR.all("bookings", pool_id=pool_id, start=start, end=end)
    return [_booking(caller, row) for row in rows]


def occupied(
    caller: Caller,
    pool_id: str,
    devices: Sequence[timeline.Device],
    *,
    start: datetime,
    end: datetime,
) -> list[timeline.Booking]:
    """Bookings that touch the window, and the maintenance in which nothing is booked."""
    booked = bookings(caller, pool_id, start=start, end=end)
    windows = maintenance.standing(pool_id, start=start, end=end)
    return booked + (works(windows, devices, booked) if windows else [])


def works(
    windows: Sequence[Window],
    devices: Sequence[timeline.Device],
    booked: Sequence[timeline.Booking],
) -> list[timeline.Booking]:
    """Maintenance as drawn on each device: where it is not booked, which comes before it. Pure."""
    taken: defaultdict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
    for booking in booked:
        taken[booking.device_id].append((booking.start, booking.end))
    found = []
    for window in windows:
        for device in devices:
            if window.node_name not in {None, device.node}:
                continue
            for start, end in _gaps(window.start, window.end, taken[device.id]):
                label = f"maintenance: {window.reason}"
                found.append(
                    timeline.Booking(device.id, window.id, start, end, Whose.MAINTENANCE, label)
                )
            taken[device.id].append((window.start, window.end))
    return found


def _gaps(
    start: datetime, end: datetime, taken: Sequence[tuple[datetime, datetime]]
) -> Iterator[tuple[datetime, datetime]]:
    """What is left of a span between others."""
    for begins, ends in sorted(taken):
        if start < min(begins, end):
            yield start, min(begins, end)
        start = max(start, ends)
    if start < end:
        yield start, end


def _booking(caller: Caller, row: sql.Row) -> timeline.Booking:
    device_id, allocation_id, start, end, reservation_id, tenant_id, owner_id, owner, count = row
    if reservation_id is None:
        return timeline.Booking(device_id, allocation_id, start, end, Whose.CHANGE)
    if tenant_id != caller.tenant_id:
        return timeline.Booking(device_id, allocation_id, start, end, Whose.FOREIGN)
    return timeline.Booking(
        device_id=device_id,
        allocation_id=allocation_id,
        start=start,
        end=end,
        whose=Whose.MINE if owner_id == caller.account_id else Whose.TENANT,
        label=f"{owner} · {parts.count(count, 'device')}",
        href=reverse("reservation", args=[reservation_id]),
    )


def names(shown: Sequence[Reservation], *, also: Collection[str] = ()) -> Names:
    """What everything is called that these reservations mention, and these people: one query."""
    allocations = [allocation for reservation in shown for allocation in reservation.allocations]
    return named(
        pool_ids={reservation.pool_id for reservation in shown},
        node_ids={allocation.node_id for allocation in allocations},
        owner_ids=_people(shown).union(also),
        device_ids={device for a in allocations for device in a.device_ids},
    )


def named(
    *,
    pool_ids: Collection[str] = (),
    node_ids: Collection[str] = (),
    owner_ids: Collection[str] = (),
    device_ids: Collection[str] = (),
) -> Names:
    """What these are called: one query."""
    rows = CALENDAR.all(
        "names",
        pool_ids=sorted(pool_ids),
        node_ids=sorted(node_ids),
        owner_ids=sorted(owner_ids),
        device_ids=sorted(device_ids),
    )
    found: dict[str, dict[str, str]] = {"pool": {}, "node": {}, "owner": {}, "model": {}}
    for kind, key, name in rows:
        found[kind][key] = name
    return Names(found["pool"], found["node"], found["owner"], found["model"])


def _people(shown: Sequence[Reservation]) -> set[str]:
    owners = {reservation.owner_identity_id for reservation in shown}
    return owners.union(*(reservation.users for reservation in shown))
