"""The loop that keeps things true: claim, reconcile, finish (C26, C27).

Reconcilers are level-triggered: they get a key, read the rows, and change what is missing. Each
gets a ``fence`` beside the key and opens every write transaction with ``with fence():``, so that
only the shard's holder commits (C30). What a run may meet:

- it succeeds: the row is deleted, or kept for the time it asked for, or due again if it was woken;
- it raises: the row backs off with what was raised, and stays visible;
- the lease was lost: quietly nothing; the new holder runs it;
- the database is gone: the claim is kept in memory and voided when the database is back (C33).
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.db import Error, InterfaceError, OperationalError, connection
from structlog import contextvars

from bettercompute import failpoints
from bettercompute.coordination import holdings, workqueue
from bettercompute.coordination.fencing import Fence, LeaseLost
from bettercompute.coordination.holdings import Held, Holdings
from bettercompute.coordination.leases import Lease
from bettercompute.coordination.workqueue import Claim
from bettercompute.failpoints import Failpoint
from bettercompute.telemetry import metrics, tracing
from bettercompute.telemetry.tracing import Span

log = logging.getLogger(__name__)

DRAIN_MAX = 1_000  # rows of one call: a row that is always due again must not keep it for ever
BATCH_MAX = 8  # rows of a shard claimed at once: few, so that other shards get their turn


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more to do until somebody wakes the key."""


@dataclass(frozen=True, slots=True)
class At:
    """Look again at this instant."""

    instant: datetime


Outcome = Done | At
Reconcile = Callable[[str, Fence], Outcome]


class Runner:
    """Runs reconcilers by kind over the shards that this process holds."""

    def __init__(
        self, handlers: Mapping[str, Reconcile], *, holdings: Holdings | None = None
    ) -> None:
        self.handlers = handlers
        self.holdings = holdings or Holdings()

    def run_once(self) -> bool:
        """Run the most overdue row that is ours to run; False if nothing is due."""
        return self.drain(limit=1) > 0

    def drain(self, limit: int = DRAIN_MAX) -> int:
        """Run due rows until none is left or ``limit`` is reached; answers how many were run."""
        done = 0
        while done < limit:
            self.holdings.refresh()
            ran = self._run_some(min(BATCH_MAX, limit - done))
            if not ran:
                break
            done += ran
        return done

    def lease_of(self, key: str) -> Lease | None:
        """The lease under which this process works on ``key``, if it is ours."""
        return self.holdings.lease(holdings.shard_name(workqueue.shard_of(key)))

    def _run_some(self, limit: int) -> int:
        """Run a batch of the most overdue shard that no other thread of ours is using."""
        idle = self.holdings.shards()
        for shard in workqueue.due_shards(idle) if idle else []:
            with self.holdings.using(holdings.shard_name(shard)) as held:
                if held is None:
                    continue
                ran = self._run_shard(shard, held, limit)
            if ran:
                return ran
        return 0

    def _run_shard(self, shard: int, held: Held, limit: int) -> int:
        try:
            # A zombie's claims would hide the rows from whoever holds the shard now.
            with self.holdings.fenced(held):
                claims = workqueue.claim([shard], limit=limit)
            for claim in claims:
                self._run(claim, held)
        except LeaseLost:
            return 0
        return len(claims)

    def _run(self, claim: Claim, held: Held) -> None:
        kind, parent = tracing.Kind.CONSUMER, tracing.from_origin(claim.origin)
        known = {"kind": claim.kind, "key": claim.key, "epoch": held.lease.epoch}
        metrics.WORK_DELAY_SECONDS.labels(claim.kind).observe(claim.late.total_seconds())
        began = time.perf_counter()
        with (
            tracing.entered(f"reconcile {claim.kind}", kind=kind, parent=parent) as span,
            contextvars.bound_contextvars(**known),
        ):
            span.set("better_compute.key", claim.key)
            ended = self._try(claim, held, span)
        metrics.WORK_SECONDS.labels(claim.kind).observe(time.perf_counter() - began)
        metrics.WORK_RUNS.labels(claim.kind, ended).inc()

    def _try(self, claim: Claim, held: Held, span: Span) -> str:
        """Reconcile and finish; answers how it ended, for the metrics."""
        failpoints.reach(Failpoint.WORK_CLAIMED)
        try:
            outcome = self._reconcile(claim, held)
        except LeaseLost:
            raise
        except Exception as error:
            if _database_is_gone(error):
                raise
            log.exception("%s %s failed (attempt %s)", claim.kind, claim.key, claim.attempts + 1)
            span.fail(error)
            workqueue.fail(claim, f"{type(error).__name__}: {error}")
            return "failed"
        failpoints.reach(Failpoint.WORK_RECONCILED)
        next_at = outcome.instant if isinstance(outcome, At) else None
        workqueue.finish(claim, next_at=next_at)
        return "done" if next_at is None else "again"

    def _reconcile(self, claim: Claim, held: Held) -> Outcome:
        handler = self.handlers.get(claim.kind)
        if handler is None:
            raise LookupError(f"no reconciler for kind {claim.kind!r}")
        return handler(claim.key, partial(self.holdings.fenced, held))


def _database_is_gone(error: Exception) -> bool:
    """Whether the connection broke, as opposed to one statement that failed on it."""
    if not isinstance(error, Error):
        return False
    broken = connection.connection is None or connection.connection.closed
    return isinstance(error, InterfaceError | OperationalError) and bool(broken)
