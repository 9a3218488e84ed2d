"""What a feed shows: a person's reservations, or a pool's bookings as its shared calendar has them.

Bounded in span and number. Another tenant's bookings tell when and how many devices, nothing else,
and their ids here are of this feed alone, so nobody can follow them elsewhere (R38).
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from bettercompute.pages import chips, parts
from bettercompute.states import ReservationState as S
from bettercompute.wire import reservations as wire
from pools import catalogue
from reservations import queries
from reservations.feeds.document import Entry, Status
from reservations.feeds.keeping import FEEDS, Opened
from reservations.models import Reservation
from reservations.pages import calendar, presentation
from reservations.pages.presentation import Names

BACK = timedelta(days=30)
AHEAD = timedelta(days=180)
ENTRIES_MAX = 2_000

_TENTATIVE = (S.PENDING, S.AWAITING_CONFIRMATION)
_WITHDRAWN = (S.CANCELLED, S.FAILED, S.EXPIRED)

Href = Callable[[str], str]


def read(feed: Opened, *, href: Href) -> tuple[str, list[Entry]]:
    """The calendar's name and its entries; ``href`` answers the page of a reservation's id."""
    if feed.pool_id is None:
        return "GPU reservations", _of_person(feed, href)
    access = catalogue.access_pool(feed.caller, feed.pool_id)
    return f"GPUs in {access.name}", _of_pool(feed, feed.pool_id, href)


def _of_person(feed: Opened, href: Href) -> list[Entry]:
    found = FEEDS.all(
        "of_person",
        tenant_id=feed.caller.tenant_id,
        account_id=feed.caller.account_id,
        back=BACK,
        ahead=AHEAD,
        most=ENTRIES_MAX,
    )
    return _own([key for (key,) in found], feed, href)


def _of_pool(feed: Opened, pool_id: str, href: Href) -> list[Entry]:
    rows = FEEDS.all("of_pool", pool_id=pool_id, back=BACK, ahead=AHEAD, most=ENTRIES_MAX)
    ours = [row[0] for row in rows if row[1] == feed.caller.tenant_id]
    foreign = [
        Entry(
            uid=_uid(f"{feed.id}/{key}"),
            start=start,
            end=end,
            revised=placed_at,
            summary=f"Booked: {parts.count(devices, 'device')}",
            status=Status.CONFIRMED,
        )
        for key, tenant_id, start, end, placed_at, devices in rows
        if tenant_id != feed.caller.tenant_id
    ]
    return [*foreign, *_own(ours, feed, href)]


def _own(keys: Sequence[str], feed: Opened, href: Href) -> list[Entry]:
    found = queries.several(keys)
    names = calendar.names([shown for _, shown in found])
    return [_entry(row, shown, names, feed=feed, href=href) for row, shown in found]


def _entry(
    row: Reservation, shown: wire.Reservation, names: Names, *, feed: Opened, href: Href
) -> Entry:
    assert row.starts_at is not None
    assert row.ends_at is not None
    what = presentation.what(shown, names)
    pool = names.pools.get(shown.pool_id, shown.pool_id)
    owner = names.owners.get(shown.owner_identity_id, "")
    whose = "" if row.owner_id == feed.caller.account_id else f" ({owner})"
    chip = chips.of(shown)
    return Entry(
        uid=_uid(row.id),
        start=row.starts_at,
        end=row.ends_at,
        revised=_revised(row),
        summary=f"{what} in {pool}{whose}",
        status=_status(row),
        sequence=row.version,
        description=f"{chip.label}. Reserved by {owner}.\n{row.id}",
        url=href(row.id),
    )


def _status(row: Reservation) -> Status:
    """Whether its devices are, or were, really there for it."""
    state = S(row.state)
    if state in _TENTATIVE:
        return Status.TENTATIVE
    if state in _WITHDRAWN:
        return Status.CANCELLED
    if row.ended_at is not None and row.starts_at is not None and row.ended_at <= row.starts_at:
        return Status.CANCELLED
    return Status.CONFIRMED


def _revised(row: Reservation) -> datetime:
    """The last instant that the row knows of itself."""
    known: Iterable[datetime | None] = (
        row.created_at,
        row.placed_at,
        row.bound_at,
        row.ended_at,
    )
    return max(instant for instant in known if instant is not None)


def _uid(text: str) -> str:
    return f"{hashlib.sha256(text.encode()).hexdigest()[:32]}@better-compute"
