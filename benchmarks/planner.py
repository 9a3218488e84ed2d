"""``make bench ARGS="planner"``: how long it takes to find and commit a place, as pools grow.

In one process and on one connection, without HTTP: the use cases themselves. Each figure is the
median of its runs, for a preview with its 99th percentile; what is committed is rolled back, so
that every run meets the same pool.
"""

import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from benchmarks import stock
from benchmarks.stock import Stock
from benchmarks.supply import Person
from bettercompute import clock
from bettercompute.iam import callers
from bettercompute.iam.callers import Caller
from bettercompute.wire.reservations import ReservationRequest
from pools import earliest, requests, snapshot
from pools.planner.plan import Plan
from pools.planner.request import Demand
from reservations import placement, previews
from reservations.placement import Claim

NODES = (100, 1_213, 10_000)
AHEAD = 100_000
HOUR = timedelta(hours=1)
WEEK = timedelta(weeks=1)
ALL_AHEAD = timedelta(days=90)
PREVIEWS = 100  # of which the slowest but one is the 99th percentile

WHOLE_HOST = {"vcpu": 192, "memoryGiB": 2_000}
EIGHT = {"devices": [{"class": "gpu", "count": 8}], "resources": WHOLE_HOST}
REQUESTS: dict[str, dict[str, Any]] = {
    "1 GPU": {
        "devices": [{"class": "gpu", "count": 1}],
        "resources": {"vcpu": 24, "memoryGiB": 250},
    },
    "8 GPUs": EIGHT,
    "16 × 8 GPUs": {**EIGHT, "gang": {"nodes": 16}},
}
# Nowhere are so many hosts free at once, and every host is told why.
REFUSED = {"600 × 8 GPUs": {**EIGHT, "gang": {"nodes": 600}}}


@dataclass(frozen=True, slots=True)
class Row:
    """One request on one pool, in milliseconds; None: it does not fit there."""

    stock: Stock
    request: str
    now_ms: float
    next_week_ms: float
    fits: bool
    earliest_ms: float | None
    preview_ms: tuple[float, float]  #: median and 99th percentile


def measure(nodes: Sequence[int], person: Person, *, runs: int) -> Iterator[Row]:
    """Every request on every pool; a full pool is also asked when it would fit."""
    caller = callers.of_member(person.account_id, person.tenant_id)
    for number in nodes:
        for full in (False, True):
            stocked = stock.pool(
                number, full=full, ahead=AHEAD if full and number > NODES[0] else 0
            )
            for name, body in {**REQUESTS, **(REFUSED if full else {})}.items():
                yield _row(stocked, caller, name, body, runs)
            stock.forget(stocked)


HEAD = (
    "| nodes | pool | request | now | next week | earliest start | preview, its p99 |\n"
    "|---|---|---|---|---|---|---|"
)


def line(row: Row) -> str:
    """A row of the table, as docs/benchmarks.md has it."""
    told = "" if row.fits else " (does not fit)"
    when = "" if row.earliest_ms is None else f"{row.earliest_ms:.1f} ms"
    return (
        f"| {row.stock.supply.nodes:,} | {row.stock.name} | {row.request}{told}"
        f" | {row.now_ms:.1f} ms | {row.next_week_ms:.1f} ms | {when}"
        f" | {row.preview_ms[0]:.1f}, {row.preview_ms[1]:.1f} ms |"
    )


def _row(stocked: Stock, caller: Caller, name: str, body: Mapping[str, Any], runs: int) -> Row:
    pool_id = stocked.supply.pool_id
    now = clock.now().replace(microsecond=0)
    whole = {"tenantId": caller.tenant_id, "poolId": pool_id, "duration": "1h", **body}
    asked = ReservationRequest.model_validate_json(json.dumps(whole))
    demand = requests.normalise(asked, now_ms=clock.to_ms(now)).demand(
        body["resources"], replicas=4
    )
    fits = isinstance(_found(pool_id, demand, now), Plan)
    waits = stocked.full  # elsewhere nobody has to
    return Row(
        stock=stocked,
        request=name,
        now_ms=_median(lambda: _place(pool_id, demand, now), runs),
        next_week_ms=_median(lambda: _place(pool_id, demand, now + WEEK), runs),
        fits=fits,
        earliest_ms=_median(lambda: _earliest(pool_id, demand, now), runs) if waits else None,
        preview_ms=_percentiles(_taken(lambda: previews.preview(caller, asked), PREVIEWS)),
    )


def _place(pool_id: str, demand: Demand, start: datetime) -> None:
    """Find a place and commit it, as a create does; then leave everything as it was."""
    claim = Claim(
        reservation_id="rsv_bench",
        pool_id=pool_id,
        demand=demand,
        binding="hold",
        duration=HOUR,
        requested_start=start,
    )
    found = placement.look(claim)
    with _rolled_back():
        placement.place(claim, found, now=clock.now())


def _found(pool_id: str, demand: Demand, start: datetime) -> object:
    return snapshot.find(pool_id, demand, start=start, end=start + HOUR, rng=random.Random(1))


def _earliest(pool_id: str, demand: Demand, now: datetime) -> None:
    earliest.find(
        pool_id, demand, after=now, until=now + ALL_AHEAD, length=HOUR, rng=random.Random(1)
    )


@contextmanager
def _rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def _median(work: Callable[[], object], runs: int) -> float:
    return statistics.median(_taken(work, runs))


def _percentiles(taken: Sequence[float]) -> tuple[float, float]:
    return statistics.median(taken), statistics.quantiles(taken, n=100)[98]


def _taken(work: Callable[[], object], runs: int) -> list[float]:
    """How long each run took, in milliseconds, once the first has warmed everything up."""
    work()
    taken = []
    for _ in range(runs):
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1_000)
    return taken
