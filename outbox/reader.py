"""Events behind the snapshot horizon, after a position (C21); ``outbox.feeds`` has the rules.

A stream of events to a client is: ``resume(last_event_id)`` once, then ``follow`` from the position
of the page before, each event with ``str(event.position)`` as its id.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bettercompute import sql
from outbox import feeds, positions
from outbox.feeds import Feed, Page, Resumed
from outbox.positions import Position

START = positions.START


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event as it is stored."""

    position: Position
    id: str
    type: str
    tenant_id: str
    subject: str
    data: dict[str, Any]
    time: datetime
    origin: str | None = None  #: the trace and request it came from: ``tracing.from_origin``


def event(row: sql.Row) -> EventRow:
    """An event from the columns that every statement here selects.

    Only what goes on to others needs its origin.
    """
    txid, seq, event_id, type_, tenant_id, subject, data, time, *origin = row
    # Django switches psycopg's JSON loading off: the column comes as text.
    return EventRow(
        Position(txid, seq), event_id, type_, tenant_id, subject, json.loads(data), time, *origin
    )


EVENTS: Feed[EventRow] = feeds.Feed(sql.load(__package__, "reader"), event)


def read(
    after: Position,
    *,
    limit: int,
    types: Collection[str] | None = None,
    tenant_id: str | None = None,
) -> list[EventRow]:
    """The next events after a position, in order; of some types or one tenant where asked."""
    return EVENTS.read(after, limit=limit, types=types, tenant_id=tenant_id)


def end() -> Position:
    """The position behind everything readable now: where a new subscriber starts."""
    return EVENTS.end()


def resume(last_event_id: str | None) -> Resumed:
    """Where a stream goes on, by the id of the last event that its client has seen."""
    return EVENTS.resume(last_event_id)


def follow(
    after: Position,
    *,
    limit: int,
    types: Collection[str] | None = None,
    tenant_id: str | None = None,
) -> Page[EventRow]:
    """The next events of a stream, and where to go on."""
    return EVENTS.follow(after, limit=limit, types=types, tenant_id=tenant_id)
