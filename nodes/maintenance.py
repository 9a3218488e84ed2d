"""Planned maintenance of a node or a whole pool: nothing new is booked over it.

What was booked before it was announced stays. Whoever announces locks the pool and the nodes it is
about; placers share those nodes while they book, extensions lock the pool. So of the two, whoever
commits second sees the first (C13). Cancelling only ever makes room, and needs neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from bettercompute import clock, errors, ids, sql
from bettercompute.web import etags
from nodes import notices
from outbox import events

MAINTENANCE = sql.load(__package__, "maintenance")

STANDING_MAX = 1_000  # of one pool; every look at it reads them


@dataclass(frozen=True, slots=True)
class Place:
    """A node, or a whole pool where there is none, and who owns it."""

    pool_id: str
    pool_name: str
    tenant_id: str
    node_id: str | None
    node_name: str | None


@dataclass(frozen=True, slots=True)
class Window:
    """Maintenance that somebody announced."""

    id: str
    pool_id: str
    pool_name: str
    tenant_id: str
    node_id: str | None
    node_name: str | None
    start: datetime
    end: datetime
    reason: str
    announced_by: str
    announced_at: datetime
    cancelled_at: datetime | None
    version: int

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.pool_id, self.pool_name, self.tenant_id, self.node_id, self.node_name)


@dataclass(frozen=True, slots=True)
class Held:
    """What an allocation has of a node in that time, or will have."""

    owner_key: str
    allocation_id: str
    node_id: str
    node_name: str
    devices: int
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Next:
    """The first maintenance that a holder meets."""

    node_name: str
    reason: str
    start: datetime
    end: datetime


def place(*, pool_id: str | None = None, node_id: str | None = None) -> Place | None:
    """Where maintenance could be: exactly one of pool and node is named."""
    row = MAINTENANCE.one("place", pool_id=pool_id, node_id=node_id)
    return None if row is None or (node_id is not None and row[3] is None) else Place(*row)


@transaction.atomic
def announce(
    at: Place, *, start: datetime, end: datetime, reason: str, account_id: str
) -> tuple[Window, bool]:
    """Keep new bookings clear of ``[start, end)``; answers it, and whether it is new.

    Raises:
        errors.InvalidState: the pool has too much of it announced already.
    """
    MAINTENANCE.all("lock_pool", pool_id=at.pool_id)
    scope = {"pool_id": at.pool_id, "node_id": at.node_id}
    nodes = [node_id for (node_id,) in MAINTENANCE.all("lock_nodes", **scope)]
    what = {**scope, "start": start, "end": end, "reason": reason}
    same = MAINTENANCE.one("same", **what)
    if same is not None:
        return get(same[0]), False
    _check_room(at)
    window_id = ids.new("mnt")
    MAINTENANCE.run("announce", id=window_id, announced_by=account_id, **what)
    window = get(window_id)
    notices.wake(changed=nodes, gained=[])
    _publish(window, "announced")
    return window, True


@transaction.atomic
def cancel(window_id: str, *, account_id: str, if_match: frozenset[int] | None = None) -> Window:
    """Let its time be booked again, at once for who waits. Repeating it changes nothing.

    Raises:
        errors.NotFound: there is none.
        errors.InvalidState: it is over.
        errors.PreconditionFailed: its version is not one of ``if_match`` (C2).
    """
    row = MAINTENANCE.one("lock", id=window_id)
    if row is None:
        raise not_found(window_id)
    version, is_cancelled, is_over = row
    etags.require(version, if_match)
    if is_cancelled:
        return get(window_id)
    if is_over:
        raise errors.InvalidState("This maintenance is over.")
    MAINTENANCE.one("cancel", id=window_id, version=version, cancelled_by=account_id)
    window = get(window_id)
    nodes = notices.nodes_of(window.pool_id, node_id=window.node_id)
    notices.wake(changed=nodes, gained=nodes)
    _publish(window, "cancelled")
    return window


def get(window_id: str) -> Window:
    """One of them, whatever became of it.

    Raises:
        errors.NotFound: there is none.
    """
    found = _read(id=window_id)
    if not found:
        raise not_found(window_id)
    return found[0]


def standing(
    pool_id: str,
    *,
    node_id: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
) -> list[Window]:
    """What is announced for a pool and meets the window (by default from now on), by start.

    Of a node: its own, and its pool's.
    """
    return _read(pool_id=pool_id, node_id=node_id, start=start, end=end)


def meeting(at: Place, *, start: datetime, end: datetime) -> list[Held]:
    """What is held there in that time, by start: all of it stays."""
    rows = MAINTENANCE.all("meeting", pool_id=at.pool_id, node_id=at.node_id, start=start, end=end)
    return [Held(*row) for row in rows]


def first_on(
    node_ids: Sequence[str], *, start: datetime, end: datetime | None = None
) -> Next | None:
    """The first maintenance of any of these nodes within a window; without an end, for ever."""
    row = MAINTENANCE.one("first_on", node_ids=list(node_ids), start=start, end=end)
    return None if row is None else Next(*row)


def not_found(window_id: str) -> errors.NotFound:
    """What to say of one that is not there, or not to be seen."""
    return errors.NotFound(f"There is no maintenance {window_id[:100]} in your pools.")


def _check_room(at: Place) -> None:
    row = MAINTENANCE.one("count_standing", pool_id=at.pool_id)
    assert row is not None
    if row[0] >= STANDING_MAX:
        raise errors.InvalidState(
            f"{at.pool_name} has {row[0]} maintenance windows ahead; cancel some first."
        )


def _read(
    *,
    id: str | None = None,  # noqa: A002
    pool_id: str | None = None,
    node_id: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
) -> list[Window]:
    rows = MAINTENANCE.all("read", id=id, pool_id=pool_id, node_id=node_id, start=start, end=end)
    return [Window(*row) for row in rows]


def _publish(window: Window, verb: str) -> None:
    """Tell the owner of the pool; those whose time it meets are told of their reservation."""
    kind, key = ("pool", window.pool_id) if window.node_id is None else ("node", window.node_id)
    events.publish(
        f"{kind}.maintenance-{verb}",
        tenant_id=window.tenant_id,
        subject=f"{kind}/{key}",
        data={
            "poolId": window.pool_id,
            "name": window.node_name or window.pool_name,
            "maintenanceId": window.id,
            "start": clock.to_ms(window.start),
            "end": clock.to_ms(window.end),
            "reason": window.reason,
        },
    )
