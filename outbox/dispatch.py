"""Delivering events to a sink, by the holder of its lease (C22).

At least once: the cursor is saved after each batch, so what a dispatcher delivered just before it
died is delivered again by the next. Consumers deduplicate by the event's id.

A sink that is a *queue* only writes rows, and does so in the transaction that saves the cursor: of
each event it has all of its rows or none, exactly once.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

from django.db import transaction

from bettercompute import failpoints, sql
from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.coordination import leases
from bettercompute.coordination.fencing import Fence, LeaseLost
from bettercompute.errors import InvalidState
from bettercompute.failpoints import Failpoint
from outbox import cluster, reader
from outbox.positions import Position
from outbox.reader import EventRow

DISPATCH = sql.load(__package__, "dispatch")

BATCH_MAX = 100
BATCHES_MAX = 50
TURN_SECONDS_MAX = 10.0  # of one call: other jobs of this worker get their turn


class Sink(Protocol):
    """Somebody who is told of events."""

    def deliver(self, events: Sequence[EventRow]) -> None:
        """Take a batch; raising leaves the cursor where it was, and the batch comes again.

        It has to end well within a lease's time to live: whoever tells others over a network keeps
        a queue of its own and fills that.
        """


@runtime_checkable
class Queue(Protocol):
    """A sink within our own database: somebody else takes what it writes down."""

    def batch_max(self) -> int:
        """How many events it takes in one transaction, which has to end within seconds."""

    def enqueue(self, events: Sequence[EventRow]) -> None:
        """Write down what becomes of a batch; raising leaves the cursor where it was."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A transaction that no reader gets past (C24)."""

    who: str  # pid 4711, or prepared transaction 'gid'
    database: str
    user: str
    application: str
    state: str
    statement: str  # the one it runs, or ran last; empty where we may not see it
    age: timedelta


def lease_name(sink_id: str) -> str:
    """The singleton job that delivers to this sink."""
    return f"outbox-dispatch:{sink_id}"


def drain(sink_id: str, sink: Sink | Queue, *, fence: Fence) -> int:
    """Deliver what there is, a bounded number of batches; answers how many events."""
    total = 0
    until = time.monotonic() + TURN_SECONDS_MAX
    for _ in range(BATCHES_MAX):
        delivered = run_once(sink_id, sink, fence=fence)
        total += delivered
        if not delivered or time.monotonic() >= until:
            break
    return total


def run_once(sink_id: str, sink: Sink | Queue, *, fence: Fence) -> int:
    """Deliver one batch and save the cursor; answers how many events it had.

    Raises:
        cluster.ForeignCluster: the rows' transaction ids are another cluster's (C21).
        fencing.LeaseLost: somebody else delivers now; the cursor is theirs.
    """
    cluster.verify()
    with fence():
        before = _cursor(sink_id)
    limit = min(BATCH_MAX, sink.batch_max()) if isinstance(sink, Queue) else BATCH_MAX
    events = reader.read(before, limit=limit)
    if not events:
        return 0
    if not isinstance(sink, Queue):
        sink.deliver(events)  # C20: outside any transaction
    with fence():
        # First: it locks the cursor, and where it has moved nothing is written.
        if not _advance(sink_id, before, events[-1].position):
            raise LeaseLost(f"the cursor of {sink_id} has been moved by somebody else")
        if isinstance(sink, Queue):
            sink.enqueue(events)
            failpoints.reach(Failpoint.EVENTS_ENQUEUED)
    return len(events)


def lag() -> list[tuple[str, int, timedelta]]:
    """For each sink: how many events it has before it, and how old the oldest is."""
    return [(sink, count, age) for sink, count, age in DISPATCH.all("lag")]


def stall() -> Stall | None:
    """Who holds every reader back now, if anybody; transactions of a moment are normal."""
    row = DISPATCH.one("stall")
    return None if row is None else Stall(*row)


def forget(sink_id: str) -> bool:
    """Drop the cursor of a sink that is no more, so that its events need not be kept.

    Raises:
        InvalidState: somebody delivers to it now.
    """
    with transaction.atomic():
        if leases.current(f"singleton:{lease_name(sink_id)}") is not None:
            raise InvalidState(f"A worker delivers to {sink_id}: it is still in use.")
        forgotten = DISPATCH.run("forget", sink=sink_id) == 1
        if forgotten:
            entries.record("compute:events:forget-cursor", Thing("sink", sink_id), tenant_id="")
        return forgotten


def _cursor(sink_id: str) -> Position:
    row = DISPATCH.one("cursor", sink=sink_id)
    assert row is not None
    return Position(*row)


def _advance(sink_id: str, before: Position, after: Position) -> bool:
    moved = DISPATCH.run(
        "advance",
        sink=sink_id,
        txid=str(after.txid),
        seq=after.seq,
        from_txid=str(before.txid),
        from_seq=before.seq,
    )
    return moved == 1
