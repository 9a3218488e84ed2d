"""Events behind the snapshot horizon, after a position (C21).

A position is ``(txid, seq)``, the same for sinks, for SSE's ``Last-Event-ID`` and for the
authorization feed (C23). Nothing ever appears behind one. The price: a transaction left open
anywhere in the cluster that has written stalls every reader (C24); the self-check names it.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from bettercompute import sql

READER = sql.load(__package__, "reader")


class Position(NamedTuple):
    """How far a reader has come."""

    txid: int
    seq: int


START = Position(0, 0)


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


def read(
    after: Position,
    *,
    limit: int,
    types: Collection[str] | None = None,
    tenant_id: str | None = None,
) -> list[EventRow]:
    """The next events after a position, in order; of some types or one tenant where asked."""
    rows = READER.all(
        "read",
        txid=str(after.txid),
        seq=after.seq,
        limit=limit,
        types=None if types is None else sorted(types),
        tenant_id=tenant_id,
    )
    return [event(row) for row in rows]


def end() -> Position:
    """The position behind everything readable now: where a new subscriber starts."""
    row = READER.one("end")
    assert row is not None
    return Position(*row)


def event(row: sql.Row) -> EventRow:
    """An event from the columns that every statement here selects."""
    txid, seq, event_id, type_, tenant_id, subject, data, time = row
    # Django switches psycopg's JSON loading off: the column comes as text.
    return EventRow(
        Position(txid, seq), event_id, type_, tenant_id, subject, json.loads(data), time
    )
