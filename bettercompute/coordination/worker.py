"""What a worker process does: keep leases, run what is due, do the periodic jobs.

Celery's messages set the pace. A thread of our own keeps the leases alive while all of Celery's
are busy, and keeps the pace when the broker is gone.
"""

import importlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, Protocol

from celery.signals import worker_init, worker_shutdown
from django.conf import settings
from django.db import Error, connections
from structlog import contextvars

from bettercompute import clock
from bettercompute.coordination import reconnecting
from bettercompute.coordination.fencing import Fence, LeaseLost
from bettercompute.coordination.holdings import Holdings
from bettercompute.coordination.runner import Reconcile, Runner
from bettercompute.telemetry import metrics, otel

log = logging.getLogger(__name__)

PULSE_SECONDS = 1.0
QUIET_SECONDS = 3.0  # no tick for so long: the broker or beat is gone, we go on without


@dataclass(frozen=True, slots=True)
class Job:
    """What one process at a time does, every so often, under a lease of its name."""

    every_seconds: float
    function: Callable[[Fence], object]
    eager: bool = False  # it tells of events: also done when there are some


class Companion(Protocol):
    """What every worker does at once, in threads of its own: what would hold up the others."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End soon; what is under way is finished or given back."""

    def catch_up(self) -> int:
        """Do what is due now, in this thread; answers how much there was."""


class Worker:
    """One process at work; ``work --once`` and Celery share it."""

    def __init__(
        self,
        reconcilers: Mapping[str, Reconcile],
        jobs: Mapping[str, Job],
        *,
        companions: Sequence[Companion] = (),
    ) -> None:
        self.jobs = jobs
        self.companions = companions
        self.holdings = Holdings(singletons=jobs)
        self.runner = Runner(reconcilers, holdings=self.holdings)
        self._done_at: dict[str, datetime] = {}
        self._ticked_at = time.monotonic()
        self._stopping = threading.Event()
        self._pulse: threading.Thread | None = None
        self._accompanied = False

    def look(self) -> int:
        """Run what is due; answers how many rows were run. A lost database is waited for."""
        try:
            return self.runner.drain()
        except Error as error:
            log.warning("The database is unreachable (%s); the next look tries again.", error)
            reconnecting.drop_if_broken()
            return 0

    def tell(self) -> int:
        """Do the jobs that tell of events; one that is busy comes to these, or the next second."""
        return sum(self._do(name, job) for name, job in self.jobs.items() if job.eager)

    def tick(self) -> int:
        """Run what is due and the periodic jobs whose time has come."""
        self._ticked_at = time.monotonic()
        ran = self.look()
        for name, job in self.jobs.items():
            ran += self._do(name, job)
        if not self._accompanied:
            ran += sum(companion.catch_up() for companion in self.companions)
        return ran

    def _do(self, name: str, job: Job) -> int:
        done_at = self._done_at.get(name)
        if done_at and clock.now() - done_at < timedelta(seconds=job.every_seconds):
            return 0
        with self.holdings.using(f"singleton:{name}") as held:
            if held is None:
                return 0
            self._done_at[name] = clock.now()
            with contextvars.bound_contextvars(job=name), metrics.JOB_SECONDS.labels(name).time():
                ended = _run(name, job, partial(self.holdings.fenced, held))
            metrics.JOB_RUNS.labels(name, ended).inc()
        return 1

    def accompany(self) -> None:
        """Start what runs beside us."""
        self._accompanied = True
        for companion in self.companions:
            companion.start()

    def start(self) -> None:
        """Start the thread that keeps the leases, and what runs beside us."""
        self.accompany()
        self._pulse = threading.Thread(target=self._beat, name="pulse", daemon=True)
        self._pulse.start()

    def stop(self) -> None:
        """Stop cleanly: what is under way ends, then every lease is given up at once (C29)."""
        self._stopping.set()
        if self._accompanied:
            for companion in self.companions:
                companion.stop()
        if self._pulse is not None:
            self._pulse.join(timeout=10)
        try:
            self.holdings.give_up_all()
        except Error as error:
            log.warning("The leases could not be given up (%s); they lapse.", error)
        connections.close_all()

    def _beat(self) -> None:
        while not self._stopping.wait(PULSE_SECONDS):
            self.holdings.refresh()
            if time.monotonic() - self._ticked_at > QUIET_SECONDS:
                self.tick()
        connections.close_all()


def _run(name: str, job: Job, fence: Fence) -> str:
    """Do a job; answers how it ended, for the metrics."""
    try:
        job.function(fence)
    except LeaseLost:
        log.info("the periodic job %s goes on elsewhere", name)
        return "lost"
    except Exception:
        # The loop's edge: one job's failure stops neither the others nor its next turn.
        log.exception("the periodic job %s failed", name)
        reconnecting.drop_if_broken()
        return "failed"
    return "done"


@cache
def current() -> Worker:
    """This process's worker, wired as ``settings.WIRING`` says."""
    wiring: Any = importlib.import_module(settings.WIRING)
    return Worker(wiring.reconcilers(), wiring.ticks(), companions=wiring.companions())


# At init, not when ready: a worker is ready only once it has reached the broker.
@worker_init.connect  # type: ignore[untyped-decorator]  # Celery has no types
def _start(**_: Any) -> None:
    otel.start("worker")
    current().start()


@worker_shutdown.connect  # type: ignore[untyped-decorator]  # likewise
def _stop(**_: Any) -> None:
    current().stop()
    otel.stop()
