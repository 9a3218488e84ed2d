"""Retention: events that everybody has read, and that are old, are removed (C24).

Only from the beginning of the order, so that what is kept has no holes, and never the newest: a
reader at the end of a quiet feed stands on it. A sink that stands still keeps everything it has not
read; if it is gone for good, an operator forgets its cursor.

The authorization feed is thinned out instead: an entry goes when it is old and a later one about
the same resource can be read, so the last state of every resource stays ahead of any reader.
"""

from datetime import timedelta

from django.conf import settings

from bettercompute import sql
from bettercompute.coordination.fencing import Fence
from outbox import cluster

RETENTION = sql.load(__package__, "retention")

BATCH = 1_000
BATCHES_MAX = 200  # of one turn and table; the rest goes next time


def sweep(fence: Fence) -> int:
    """Remove what may go, in small transactions of the lease's holder; answers how many rows.

    Raises:
        ForeignCluster: after a restore the order of rows is not to be trusted until the rebase.
    """
    cluster.verify()
    age = timedelta(days=settings.EVENT_RETENTION_DAYS)
    return sum(_sweep(statement, age, fence=fence) for statement in ("events", "changes"))


def _sweep(statement: str, age: timedelta, *, fence: Fence) -> int:
    total = 0
    for _ in range(BATCHES_MAX):
        with fence():
            removed = RETENTION.run(statement, seconds=age.total_seconds(), limit=BATCH)
        total += removed
        if removed < BATCH:
            break
    return total
