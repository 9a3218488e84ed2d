"""Events as people look them up: about one thing, a page of many, one by its id."""

from bettercompute import clock, errors
from bettercompute.web import pagination
from bettercompute.wire import events as wire
from bettercompute.wire.base import PAGE_DEFAULT
from outbox import events, reader
from outbox.filters import Filters
from outbox.reader import EventRow

CURSOR = "events"


def for_subject(subject: str, *, limit: int = 100) -> list[EventRow]:
    """The newest events about one thing, newest first; no horizon, as nothing goes on from here."""
    return [
        reader.event(row) for row in events.EVENTS.all("for_subject", subject=subject, limit=limit)
    ]


def page(
    filters: Filters, *, limit: int = PAGE_DEFAULT, cursor: str | None = None
) -> wire.EventList:
    """A page of events, the newest first, and the position behind all that it could show.

    Raises:
        InvalidInput: the cursor is not of this list.
    """
    behind = None if cursor is None else pagination.decode(CURSOR, cursor, int)[0]
    until = reader.end()
    rows = events.EVENTS.all(
        "page",
        until_txid=str(until.txid),
        until_seq=until.seq,
        tenant_id=filters.tenant_id,
        types=None if filters.types is None else sorted(filters.types),
        subject=filters.subject,
        start=filters.start,
        end=filters.end,
        behind=behind,
        limit=limit + 1,
    )
    found = [reader.event(row) for row in rows[:limit]]
    more = len(rows) > limit
    return wire.EventList(
        items=[as_wire(each) for each in found],
        next_cursor=pagination.encode(CURSOR, found[-1].position.seq) if more else None,
        position=str(until),
    )


def get(event_id: str, *, tenant_id: str | None) -> EventRow:
    """One event; of any tenant where ``tenant_id`` is None.

    Raises:
        NotFound: there is none, it is another tenant's, or it is older than what is kept.
    """
    row = events.EVENTS.one("one", id=event_id, tenant_id=tenant_id)
    if row is None:
        raise errors.NotFound(
            f"There is no event {event_id[:100]} of this tenant, or it is not kept any more."
        )
    return reader.event(row)


def as_wire(row: EventRow) -> wire.Event:
    """An event as everybody outside sees it (C20)."""
    return wire.Event(
        id=row.id,
        type=row.type,
        tenant_id=row.tenant_id,
        subject=row.subject,
        data=row.data,
        time=clock.to_ms(row.time),
    )


def as_json(row: EventRow) -> str:
    """The same as text, on one line: what streams and webhooks send."""
    return as_wire(row).model_dump_json(by_alias=True)
