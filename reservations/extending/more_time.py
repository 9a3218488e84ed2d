"""Time behind a reservation's end: until when it is free, and booking it, all or nothing (R33)."""

from collections.abc import Sequence
from datetime import datetime

from nodes import bookings, eligibility, free_time, maintenance, resources
from reservations.models import Allocation


class Taken(Exception):
    """Somebody else has a device, or the host's resources, in the time asked for."""


def book(allocations: Sequence[Allocation], *, start: datetime, end: datetime) -> None:
    """Claim the added time on every device and host, sorted; run it under a savepoint.

    The caller holds the pool's lock, which whoever announces maintenance takes too: none is
    overlooked.

    Raises:
        Taken: any of it is; what was claimed before that is for the caller to roll back.
    """
    if maintenance.first_on([each.node_id for each in allocations], start=start, end=end):
        raise Taken
    claims = {allocation.id: allocation.device_ids for allocation in allocations}
    asked = sum(len(devices) for devices in claims.values())
    eligibility.keep_devices(device for devices in claims.values() for device in devices)
    if bookings.book_gang(claims=claims, start=start, end=end) < asked:
        raise Taken
    amounts = [(each.node_id, each.id, each.resources) for each in allocations]
    if not resources.book(node_amounts=amounts, start=start, end=end):
        raise Taken


def bound(allocations: Sequence[Allocation], *, after: datetime) -> datetime | None:
    """Until when all of them could go on; None where nothing bounds it."""
    devices = [device for allocation in allocations for device in allocation.device_ids]
    amounts = [(each.node_id, each.id, each.resources) for each in allocations]
    return free_time.until(devices, amounts, after=after)
