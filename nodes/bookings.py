"""Claims on devices over time (C9): at most one holder of a device at any instant.

The exclusion constraint ``booking_no_overlap`` decides, never a read that came before. Windows are
half-open, ``[start, end)``, in whole milliseconds, so back-to-back bookings touch without overlap.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bettercompute import sql

BOOKINGS = sql.load(__package__, "bookings")


@dataclass(frozen=True, slots=True)
class Booking:
    """One claim on one device."""

    device_id: str
    allocation_id: str
    start: datetime
    end: datetime


def book(*, allocation_id: str, device_ids: Sequence[str], start: datetime, end: datetime) -> int:
    """Claim the devices for one allocation; answers how many were free.

    Fewer than asked is a conflict: the caller rolls back to its savepoint and plans again (C17).
    """
    return book_gang(claims={allocation_id: device_ids}, start=start, end=end)


def book_gang(*, claims: Mapping[str, Sequence[str]], start: datetime, end: datetime) -> int:
    """Claim the devices of several allocations in one statement; answers how many were free.

    Devices are claimed in the order of their ids over all allocations together: booking one
    allocation after the other would let two gangs meet in opposite order and deadlock.
    """
    assert start < end, "an empty window would slip past the exclusion constraint (C9)"
    assert _is_whole(start), "windows are whole milliseconds"
    assert _is_whole(end), "windows are whole milliseconds"
    pairs = [(device, allocation) for allocation, devices in claims.items() for device in devices]
    return BOOKINGS.run(
        "book",
        device_ids=[device for device, _ in pairs],
        allocation_ids=[allocation for _, allocation in pairs],
        start=start,
        end=end,
    )


def book_each(claims: Sequence[Booking]) -> Counter[str]:
    """Claim devices for several allocations, each for its own window, in one statement.

    Answers how many devices each allocation got. Sorted by device over all of them, so that it
    never meets another transaction's bookings in the opposite order.
    """
    for claim in claims:
        assert claim.start < claim.end, "an empty window would slip past the exclusion constraint"
        assert _is_whole(claim.start), "windows are whole milliseconds"
        assert _is_whole(claim.end), "windows are whole milliseconds"
    rows = BOOKINGS.all(
        "book_each",
        device_ids=[claim.device_id for claim in claims],
        allocation_ids=[claim.allocation_id for claim in claims],
        starts=[claim.start for claim in claims],
        ends=[claim.end for claim in claims],
    )
    return Counter(allocation_id for (allocation_id,) in rows)


def unbook(allocation_ids: Iterable[str]) -> None:
    """Take back what this transaction booked for these allocations."""
    BOOKINGS.run("unbook", allocation_ids=list(allocation_ids))


def truncate(allocation_ids: Sequence[str], at: datetime | None = None) -> int:
    """End these allocations' bookings at an instant, by default now; answers how many changed.

    A booking that would become empty, or has yet to begin, is deleted. What has ended stays: usage
    is metered from it.
    """
    wanted = list(allocation_ids)
    removed = BOOKINGS.run("remove_later", allocation_ids=wanted, at=at)
    return removed + BOOKINGS.run("shorten", allocation_ids=wanted, at=at)


def blocking(
    device_ids: Iterable[str], *, start: datetime, end: datetime | None = None
) -> list[Booking]:
    """The bookings of these devices in the window (without an end: from start on), by start."""
    rows = BOOKINGS.all("blocking", device_ids=list(device_ids), start=start, end=end)
    return [Booking(*row) for row in rows]


def free_between(device_ids: Iterable[str], *, start: datetime, end: datetime) -> list[str]:
    """Those of these devices that are free for the whole window, by id. A hint, not a claim."""
    rows = BOOKINGS.all("free_between", device_ids=list(device_ids), start=start, end=end)
    return [device_id for (device_id,) in rows]


def free_until(device_ids: Iterable[str], *, after: datetime) -> datetime | None:
    """When the first booking of any of these devices begins, at or after an instant; None: never.

    For a holder whose own bookings end at ``after``: until then it could keep all of them (R22).
    """
    row = BOOKINGS.one("free_until", device_ids=list(device_ids), after=after)
    assert row is not None
    until: datetime | None = row[0]
    return until


def _is_whole(instant: datetime) -> bool:
    return instant.microsecond % 1_000 == 0
