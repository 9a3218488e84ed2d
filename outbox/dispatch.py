"""Delivering events to a sink, by the holder of its lease (C22).

At least once: the cursor is saved after each batch, so what a dispatcher delivered just before it
died is delivered again by the next. Consumers deduplicate by the event's id.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from bettercompute import sql
from bettercompute.coordination.fencing import Fence
from outbox import cluster, reader
from outbox.reader import EventRow, Position

DISPATCH = sql.load(__package__, "dispatch")

BATCH_MAX = 100
BATCHES_MAX = 50  # per turn, so that the lease is renewed between turns


class Sink(Protocol):
    """Somebody who is told of events."""

    def deliver(self, events: Sequence[EventRow]) -> None:
        """Take a batch; raising leaves the cursor where it was, and the batch comes again."""


def lease_name(sink_id: str) -> str:
    """The singleton job that delivers to this sink."""
    return f"outbox-dispatch:{sink_id}"


def drain(sink_id: str, sink: Sink, *, fence: Fence) -> int:
    """Deliver what there is, a bounded number of batches; answers how many events."""
    total = 0
    for _ in range(BATCHES_MAX):
        delivered = run_once(sink_id, sink, fence=fence)
        total += delivered
        if delivered < BATCH_MAX:
            break
    return total


def run_once(sink_id: str, sink: Sink, *, fence: Fence) -> int:
    """Deliver one batch and save the cursor; answers how many events it had.

    Raises:
        cluster.ForeignCluster: the rows' transaction ids are another cluster's (C21).
        fencing.LeaseLost: somebody else delivers now; the cursor is theirs.
    """
    cluster.verify()
    with fence():
        before = _cursor(sink_id)
    events = reader.read(before, limit=BATCH_MAX)
    if not events:
        return 0
    sink.deliver(events)  # C20: outside any transaction
    with fence():
        _advance(sink_id, before, events[-1].position)
    return len(events)


def lag() -> list[tuple[str, int, timedelta]]:
    """For each sink: how many events it has before it, and how old the oldest is."""
    return [(sink, count, age) for sink, count, age in DISPATCH.all("lag")]


def horizon() -> tuple[str, timedelta] | None:
    """Who holds every reader back the longest, and for how long already."""
    row = DISPATCH.one("horizon")
    return None if row is None else (row[0], row[1])


def _cursor(sink_id: str) -> Position:
    row = DISPATCH.one("cursor", sink=sink_id)
    assert row is not None
    return Position(*row)


def _advance(sink_id: str, before: Position, after: Position) -> None:
    DISPATCH.run(
        "advance",
        sink=sink_id,
        txid=str(after.txid),
        seq=after.seq,
        from_txid=str(before.txid),
        from_seq=before.seq,
    )
