"""What runs: reconcilers, periodic jobs, event sinks, self-checks. One page, no registries.

Each entry names its function as ``module:function`` and is resolved at first use, so that reading
this page loads nothing; a test resolves them all. Coordination, below in the layers, gets this
module through ``settings.WIRING``.
"""

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from bettercompute.coordination.runner import Reconcile
from bettercompute.findings import Finding


@dataclass(frozen=True, slots=True)
class Tick:
    """A job that one process at a time does, every so often. Each must bear being done twice."""

    name: str
    every_seconds: float
    function: str


# What looks at a key of the work queue, by its kind.
RECONCILERS: Mapping[str, str] = {
    "reservation": "reservations.reconciler:reconcile",
    "pool": "reservations.waiting_line:reconcile",
    "inventory": "nodes.inventory:reconcile",
    "node": "nodes.reconciler:reconcile",
}

# All live keys of a kind: woken every few minutes, so that a lost row costs only time (C27).
RESYNCS: Mapping[str, str] = {
    "reservation": "reservations.queries:live_keys",
    "pool": "reservations.queries:pending_pools",
    "inventory": "nodes.queries:unapplied_inventories",
}

TICKS: tuple[Tick, ...] = (
    Tick("liveness", 5, "nodes.liveness:judge"),
    Tick("resync", 180, "bettercompute.wiring:resync"),
    Tick("sweep", 600, "bettercompute.coordination.heartbeats:forget"),
)

# Who is told of events, by the sink's id: objects with ``deliver(events)``.
SINKS: Mapping[str, str] = {}

# Each answers a list of findings; empty is well.
CHECKS: tuple[str, ...] = (
    "bettercompute.coordination.checks:run",
    "outbox.checks:run",
    "nodes.checks:run",
    "pools.checks:run",
    "reservations.checks:run",
)


def resolve(path: str) -> Any:
    """The object that ``module:name`` names."""
    return pkgutil.resolve_name(path)


def reconcilers() -> dict[str, Reconcile]:
    """The reconcilers, loaded."""
    return {kind: resolve(path) for kind, path in RECONCILERS.items()}


def ticks() -> dict[str, tuple[float, Callable[[], object]]]:
    """The periodic jobs, loaded: how often, and what."""
    jobs = {tick.name: (tick.every_seconds, resolve(tick.function)) for tick in TICKS}
    for sink in SINKS:
        jobs[f"outbox-dispatch:{sink}"] = (1.0, _dispatch(sink))
    return jobs


def resync() -> int:
    """Wake every live key of every kind."""
    from bettercompute.coordination import resync as resyncs

    return resyncs.run({kind: resolve(path) for kind, path in RESYNCS.items()})


def checks() -> list[Callable[[], Iterable[Finding]]]:
    """The self-checks, loaded."""
    return [cast(Callable[[], Iterable[Finding]], resolve(path)) for path in CHECKS]


def _dispatch(sink: str) -> Callable[[], object]:
    raise NotImplementedError(sink)
