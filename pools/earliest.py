"""The first start at which a request would fit (R20).

A sweep in SQL names instants at which enough devices are free for long enough; the planner, which
also knows host resources, labels and topology, looks at each until one fits. So the answer is one
that a create agrees with, as long as nobody else is faster.
"""

import random
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from heapq import merge
from itertools import groupby, islice

from bettercompute import sql
from bettercompute.wire.reasons import Filter
from pools import snapshot
from pools.planner.plan import Plan
from pools.planner.request import Demand, Line

EARLIEST = sql.load(__package__, "earliest")

CANDIDATES_MAX = 200
LOOKS_MAX = 10  # each costs a look at the pool; what needs more is answered as not known

# Reasons that pass when others end; maintenance says itself when it does.
_OF_TIME = {Filter.BUSY, Filter.RESOURCES, Filter.GANG, Filter.TOPOLOGY}


def may_come(failed: Iterable[tuple[Filter, int | None]]) -> bool:
    """Whether waiting helps against what a request failed at, and until when where that is known.

    It does where somebody holds what is missing, or works on it.
    """
    return any(each in _OF_TIME or until_ms is not None for each, until_ms in failed)


def find(
    pool_id: str,
    demand: Demand,
    *,
    after: datetime,
    until: datetime,
    length: timedelta,
    rng: random.Random,
) -> datetime | None:
    """The first start behind ``after`` at which it fits; None where none is found by ``until``."""
    starts = _candidates(pool_id, demand, after=after, until=until, length=length)
    for start in islice(starts, LOOKS_MAX):
        found = snapshot.find(pool_id, demand, start=start, end=start + length, rng=rng)
        if isinstance(found, Plan):
            return start
    return None


def _candidates(
    pool_id: str, demand: Demand, *, after: datetime, until: datetime, length: timedelta
) -> Iterator[datetime]:
    """Instants at which any alternative of the first line could be served, in order, each once."""
    found = [
        [
            at
            for (at,) in EARLIEST.all(
                "candidates",
                pool_id=pool_id,
                spread=demand.may_spread,
                tainted=bool(demand.tolerations),
                mode=snapshot.mode_of(line),
                profile=line.profile,
                models=snapshot.models_of(line),
                count=line.minimum,
                places=1 if demand.gang is None else demand.gang.nodes,
                after=after,
                until=until,
                length=length,
                limit=CANDIDATES_MAX,
            )
        ]
        for line in _alternatives(demand)
    ]
    return (at for at, _ in groupby(merge(*found)))


def _alternatives(demand: Demand) -> tuple[Line, ...]:
    return demand.lines[0]
