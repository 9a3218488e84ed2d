"""What runs: reconcilers, periodic jobs, event sinks, self-checks, gauges. One page, no registries.

Each entry names its function as ``module:function`` and is resolved at first use, so that reading
this page loads nothing; a test resolves them all. Coordination, below in the layers, gets this
module through ``settings.WIRING``.
"""

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bettercompute.coordination import resync as resyncs
from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.runner import Reconcile
from bettercompute.coordination.worker import Companion, Job
from bettercompute.findings import Check
from bettercompute.telemetry.gauges import Look
from outbox import dispatch
from outbox.dispatch import Queue, Sink

DISPATCH_SECONDS = 0.1  # between two turns; a worker has one each second, and when it is told


@dataclass(frozen=True, slots=True)
class Tick:
    """A job that one process at a time does, every so often. Each must bear being done twice."""

    name: str
    every_seconds: float
    function: str
    fenced: bool = False  # it writes under its lease, and is given the fence


# What looks at a key of the work queue, by its kind.
RECONCILERS: Mapping[str, str] = {
    "reservation": "reservations.reconciler:reconcile",
    "pool": "reservations.placing.line:reconcile",
    "series": "reservations.series.reconciler:reconcile",
    "confirmation": "reservations.confirming.reconciler:reconcile",
    "inventory": "nodes.inventory:reconcile",
    "node": "nodes.reconciler:reconcile",
}

# All live keys of a kind: woken every few minutes, so that a lost row costs only time (C27).
RESYNCS: Mapping[str, str] = {
    "reservation": "reservations.queries:live_keys",
    "pool": "reservations.queries:pending_pools",
    "series": "reservations.series.rows:live_keys",
    "confirmation": "reservations.confirming.lookups:live_keys",
    "inventory": "nodes.queries:unapplied_inventories",
    "node": "nodes.queries:nodes_unconfirmed",
}

TICKS: tuple[Tick, ...] = (
    Tick("liveness", 5, "nodes.liveness:judge"),
    Tick("resync", 180, "bettercompute.wiring:resync"),
    Tick("sweep", 600, "bettercompute.coordination.heartbeats:forget"),
    Tick("capacity-offers", 600, "pools.capacity_offers:sweep"),
    Tick("confirmations", 3_600, "reservations.confirming.reconciler:forget", fenced=True),
    Tick("retention", 3_600, "outbox.retention:sweep", fenced=True),
    Tick("webhooks", 60, "outbox.webhooks.upkeep:run", fenced=True),
    Tick("audit-seal", 60, "bettercompute.audit.sealing:seal", fenced=True),
    Tick("audit-retention", 3_600, "bettercompute.audit.sealing:forget", fenced=True),
)

# Who is told of events, by the sink's id: objects with ``deliver(events)``, or with
# ``enqueue(events)`` where telling is writing rows.
SINKS: Mapping[str, str] = {"webhooks": "outbox.webhooks.sink:QUEUE"}

# What every worker runs beside its jobs: factories of objects with ``start`` and ``stop``.
COMPANIONS: tuple[str, ...] = ("outbox.webhooks.courier:current",)

# Tuples of functions that answer a list of findings; empty is well.
CHECKS: tuple[str, ...] = (
    "bettercompute.coordination.checks:ALL",
    "bettercompute.audit.checks:ALL",
    "bettercompute.iam.checks:ALL",
    "outbox.checks:ALL",
    "outbox.webhooks.checks:ALL",
    "nodes.checks:ALL",
    "pools.checks:ALL",
    "reservations.checks:ALL",
    "reservations.series.checks:ALL",
    "reservations.confirming.checks:ALL",
)

# Tuples of functions that answer what a scrape of the metrics reads from rows.
GAUGES: tuple[str, ...] = (
    "bettercompute.coordination.gauges:ALL",
    "outbox.gauges:ALL",
    "outbox.webhooks.gauges:ALL",
    "nodes.gauges:ALL",
    "pools.gauges:ALL",
    "reservations.gauges:ALL",
)


def resolve(path: str) -> Any:
    """The object that ``module:name`` names."""
    return pkgutil.resolve_name(path)


def reconcilers() -> dict[str, Reconcile]:
    """The reconcilers, loaded."""
    return {kind: resolve(path) for kind, path in RECONCILERS.items()}


def ticks() -> dict[str, Job]:
    """The periodic jobs, loaded; one for each sink of events among them."""
    jobs = {tick.name: Job(tick.every_seconds, _function(tick)) for tick in TICKS}
    for sink_id, path in SINKS.items():
        deliver = partial(_deliver, sink_id, resolve(path))
        jobs[dispatch.lease_name(sink_id)] = Job(DISPATCH_SECONDS, deliver, eager=True)
    return jobs


def companions() -> list[Companion]:
    """What runs beside the jobs, made or found."""
    return [resolve(path)() for path in COMPANIONS]


def resync() -> int:
    """Wake every live key of every kind."""
    return resyncs.run({kind: resolve(path) for kind, path in RESYNCS.items()})


def checks() -> list[Check]:
    """The self-checks, loaded."""
    return [check for path in CHECKS for check in resolve(path)]


def gauges() -> list[Look]:
    """What reads gauges, loaded."""
    return [look for path in GAUGES for look in resolve(path)]


def _function(tick: Tick) -> Callable[[Fence], object]:
    function: Callable[..., object] = resolve(tick.function)
    return function if tick.fenced else lambda fence: function()


def _deliver(sink_id: str, sink: Sink | Queue, fence: Fence) -> int:
    return dispatch.drain(sink_id, sink, fence=fence)
