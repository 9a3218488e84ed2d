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
from pools.planner.request import Demand, Line

EARLIEST = sql.load(__package__, "earliest")

# So many ends of bookings are looked at first, then more, and all there are where these do not do.
ENDS = (500, 8_000, None)
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
    starts = candidates(pool_id, demand, after=after, until=until, length=length)
    for start in islice(starts, LOOKS_MAX):
        found = snapshot.search(pool_id, demand, start=start, end=start + length, rng=rng)
        if found is not None:
            return start
    return None


def candidates(
    pool_id: str, demand: Demand, *, after: datetime, until: datetime, length: timedelta
) -> Iterator[datetime]:
    """Instants at which any alternative of the first line could be served, in order, each once."""
    streams = [
        _candidates(pool_id, demand, line, after=after, until=until, length=length)
        for line in demand.lines[0]
    ]
    return (start for start, _ in groupby(merge(*streams)))


def _candidates(
    pool_id: str,
    demand: Demand,
    line: Line,
    *,
    after: datetime,
    until: datetime,
    length: timedelta,
) -> Iterator[datetime]:
    """Instants at which an alternative of the first line could be served, in order."""
    seen = after
    for ends in ENDS:
        rows = EARLIEST.all(
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
            ends=ends,
            limit=LOOKS_MAX,
        )
        fresh = [at for _, at in rows if at is not None and at > seen]
        yield from fresh
        if all(is_last for is_last, _ in rows):
            return
        seen = max([seen, *fresh])
