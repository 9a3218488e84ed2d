"""``make bench ARGS="planner"``: how long it takes to find and commit a place, as pools grow.

In one process and on one connection, without HTTP: the use cases themselves. Each figure is the
median of its runs; what is committed is rolled back, so that every run meets the same pool.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from benchmarks import stock
from benchmarks.stock import Stock
from bettercompute import clock
from bettercompute.wire.reservations import DeviceClass
from pools import earliest, snapshot
from pools.planner.plan import Plan
from pools.planner.request import Demand, Gang, Line
from reservations import placement
from reservations.placement import Claim

NODES = (100, 1_213, 10_000)
AHEAD = 100_000
HOUR = timedelta(hours=1)
WEEK = timedelta(weeks=1)
ALL_AHEAD = timedelta(days=90)

EIGHT = Line(DeviceClass.GPU, 8, 8)
WHOLE_HOST = {"vcpu": 192, "memoryGiB": 2_000}
REQUESTS = {
    "1 GPU": Demand(
        lines=((Line(DeviceClass.GPU, 1, 1),),), resources={"vcpu": 24, "memoryGiB": 250}
    ),
    "8 GPUs": Demand(lines=((EIGHT,),), resources=WHOLE_HOST),
    "16 × 8 GPUs": Demand(lines=((EIGHT,),), gang=Gang(16), resources=WHOLE_HOST),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One request on one pool, in milliseconds; None: it does not fit there."""

    stock: Stock
    request: str
    now_ms: float
    next_week_ms: float
    fits: bool
    earliest_ms: float | None


def measure(nodes: Sequence[int], *, runs: int) -> Iterator[Row]:
    """Every request on every pool; a full pool is also asked when it would fit."""
    for number in nodes:
        for full in (False, True):
            stocked = stock.pool(
                number, full=full, ahead=AHEAD if full and number > NODES[0] else 0
            )
            for name, demand in REQUESTS.items():
                yield _row(stocked, name, demand, runs)
            stock.forget(stocked)


HEAD = "| nodes | pool | request | now | next week | earliest start |\n|---|---|---|---|---|---|"


def line(row: Row) -> str:
    """A row of the table, as docs/benchmarks.md has it."""
    told = "" if row.fits else " (does not fit)"
    when = "" if row.earliest_ms is None else f"{row.earliest_ms:.1f} ms"
    return (
        f"| {row.stock.supply.nodes:,} | {row.stock.name} | {row.request}{told}"
        f" | {row.now_ms:.1f} ms | {row.next_week_ms:.1f} ms | {when} |"
    )


def _row(stocked: Stock, name: str, demand: Demand, runs: int) -> Row:
    pool_id = stocked.supply.pool_id
    now = clock.now().replace(microsecond=0)
    fits = isinstance(_found(pool_id, demand, now), Plan)
    asked = stocked.full  # elsewhere nobody has to wait
    return Row(
        stock=stocked,
        request=name,
        now_ms=_median(lambda: _place(pool_id, demand, now), runs),
        next_week_ms=_median(lambda: _place(pool_id, demand, now + WEEK), runs),
        fits=fits,
        earliest_ms=_median(lambda: _earliest(pool_id, demand, now), runs) if asked else None,
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


def _median(work: Callable[[], None], runs: int) -> float:
    work()
    taken = []
    for _ in range(runs):
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1_000)
    return statistics.median(taken)
