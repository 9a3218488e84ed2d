"""Server-sent events as bytes (A7; the format of the WHATWG's HTML standard).

A frame that has an id and no data is no event: it only tells the client, who sends the last id it
saw when it comes back, how far it is. So one who waits for a rare event does not come back with an
id that is older than what is kept.
"""

from bettercompute.wire import events as wire
from outbox import queries
from outbox.positions import Position
from outbox.reader import EventRow

MEDIA_TYPE = "text/event-stream"
RETRY_MS = 2_000

RESET = "reset"
_LOST = (
    "What happened before this position may not have been sent: read the state again, then go on"
    " from here."
)


def opening(position: Position) -> bytes:
    """First of all: how soon to come back, and from where."""
    return f"retry: {RETRY_MS}\nid: {position}\n\n".encode()


def event(row: EventRow) -> bytes:
    """An event, its data on one line."""
    return f"id: {row.position}\nevent: {row.type}\ndata: {queries.as_json(row)}\n\n".encode()


def heartbeat(position: Position | None) -> bytes:
    """Nothing happened; up to here, where that is further than the client knows."""
    said = "" if position is None else f"id: {position}\n"
    return f": still here\n{said}\n".encode()


def reset(position: Position) -> bytes:
    """Events before this position may be missing."""
    data = wire.StreamReset(position=str(position), detail=_LOST).model_dump_json(by_alias=True)
    return f"id: {position}\nevent: {RESET}\ndata: {data}\n\n".encode()


def farewell(retry_ms: int) -> bytes:
    """The server stops: come back in so long."""
    return f"retry: {retry_ms}\n\n".encode()
