"""Ways to have what is asked for, where start, duration, devices or counts leave room (R21).

A search with a bounded number of looks at the pool, each of which is a preview's. Three things are
looked for: the first starts at which it fits, how long it could go on from each, and what it costs
at the least. ``rank`` then says which of them are worth an answer; it is pure.

A way is one that a create can take within ``GRACE``: where its start comes before that, it is free
for so much longer, since its window then begins when it is taken, with the full duration (R17).
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bettercompute import clock
from bettercompute.wire.capacity_offers import OfferKind
from nodes import free_time
from pools import earliest, shares, snapshot
from pools.catalogue import PoolAccess
from pools.planner import request as planning
from pools.planner.plan import COMBINATIONS_MAX, Plan
from pools.requests import NormalisedRequest

GRACE = timedelta(seconds=60)
LOOKS_MAX = 24
STARTS_MAX = 3
LONGER_MAX = 4  # looks for a longer time at one start
CHEAPER_MAX = 3  # kinds of devices tried for being cheaper
RANKED_MAX = 6

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Ranges:
    """When it may start, and how long it may be."""

    first: datetime
    last: datetime
    shortest: timedelta
    longest: timedelta


@dataclass(frozen=True, slots=True)
class Way:
    """One way to have it: exactly this request, on these devices."""

    request: NormalisedRequest
    plan: Plan
    gpu_milli: int

    @property
    def start_ms(self) -> int:
        """When it starts."""
        assert self.request.start_ms is not None, "a way has a start"
        return self.request.start_ms

    @property
    def length_ms(self) -> int:
        """How long it is."""
        return self.request.duration_ms

    @property
    def key(self) -> tuple[int, int, int]:
        """What makes two ways the same to whoever chooses."""
        return self.start_ms, self.length_ms, self.gpu_milli

    @property
    def cost(self) -> int:
        """What it costs, in thousandths of a GPU for a millisecond."""
        return self.gpu_milli * self.length_ms


@dataclass(frozen=True, slots=True)
class Ranked:
    """A way, and what it is the best at, or next to the best."""

    way: Way
    kinds: tuple[OfferKind, ...]
    best: bool


def search(
    access: PoolAccess,
    request: NormalisedRequest,
    ranges: Ranges,
    *,
    now: datetime,
    rng: random.Random,
) -> tuple[Way, ...]:
    """Ways within these ranges, in no order. Takes no locks, holds nothing."""
    looks = _Looks(access, request, now, rng)
    shortest = ranges.shortest
    ways: list[Way] = []
    for each, count in ((request, STARTS_MAX), *((each, 1) for each in _cheaper(access, request))):
        starts = list(itertools.islice(looks.starts(each, ranges, shortest), count))
        ways += [looks.longest(each, start, plan, ranges) for start, plan in starts]
        ways += [looks.way(each, start, shortest, plan) for start, plan in starts[:1]]
    if all(way.length_ms < _ms(ranges.longest) for way in ways):
        ways += looks.first_of(request, ranges, ranges.longest)
    return tuple(same for way in ways if (same := looks.exactly(way)) is not None)


def rank(ways: Sequence[Way]) -> list[Ranked]:
    """Up to six: the best of each kind, then the next of each, none twice.

    Among equals the more devices come first: a range of counts takes as many as fit.
    """
    orders = {
        OfferKind.SOONEST: sorted(ways, key=lambda way: (way.start_ms, -way.length_ms, -way.cost)),
        OfferKind.CHEAPEST: sorted(ways, key=lambda way: (way.cost, way.start_ms)),
        OfferKind.LONGEST: sorted(ways, key=lambda way: (-way.length_ms, way.start_ms, -way.cost)),
    }
    chosen: dict[tuple[int, int, int], Ranked] = {}
    for place in range(len(ways)):
        for kind, order in orders.items():
            key = order[place].key
            known = chosen.get(key)
            if known is None and len(chosen) < RANKED_MAX:
                chosen[key] = Ranked(order[place], (kind,), best=place == 0)
            elif known is not None and place == 0:
                chosen[key] = replace(known, kinds=(*known.kinds, kind))
    return list(chosen.values())


class _Looks:
    """Looks at the pool, counted: what is not found within ``LOOKS_MAX`` is not offered."""

    def __init__(
        self, access: PoolAccess, request: NormalisedRequest, now: datetime, rng: random.Random
    ) -> None:
        self._access = access
        self._now = now
        self._rng = rng
        self._left = LOOKS_MAX

    def find(self, request: NormalisedRequest, start: datetime, length: timedelta) -> Plan | None:
        """How it fits then for so long; None where it does not."""
        self._left -= 1
        return snapshot.search(
            self._access.pool_id,
            self._demand(request),
            start=start,
            end=self._end(start, length),
            rng=self._rng,
        )

    def starts(
        self, request: NormalisedRequest, ranges: Ranges, length: timedelta
    ) -> Iterator[tuple[datetime, Plan]]:
        """Starts at which it fits for so long, in order: the first, then as something is freed."""
        # What is free a little later than now is looked at once, at the end of the grace.
        after = max(ranges.first, self._now + GRACE)
        found = self._at(request, ranges.first, length)
        if found is None and ranges.first < after <= ranges.last:
            found = self._at(request, after, length)
        if found is not None:
            yield found
        if after >= ranges.last:
            return
        freed = earliest.candidates(
            self._access.pool_id,
            self._demand(request),
            after=after,
            until=ranges.last,
            length=length,
        )
        for start in itertools.islice(freed, earliest.LOOKS_MAX):
            if (found := self._at(request, start, length)) is not None:
                yield found

    def _at(
        self, request: NormalisedRequest, start: datetime, length: timedelta
    ) -> tuple[datetime, Plan] | None:
        """How it fits then, if it does and a look is left."""
        found = self.find(request, start, length) if self._left > 0 else None
        return None if found is None else (start, found)

    def first_of(self, request: NormalisedRequest, ranges: Ranges, length: timedelta) -> list[Way]:
        """The first start at which it fits for so long, if there is one."""
        found = itertools.islice(self.starts(request, ranges, length), 1)
        return [self.way(request, start, length, plan) for start, plan in found]

    def longest(
        self, request: NormalisedRequest, start: datetime, plan: Plan, ranges: Ranges
    ) -> Way:
        """The longest time from this start: all of it, or step by step as far as bookings let it.

        What fits for a time fits for any shorter one, so the first step that fails is the last.
        """
        length = ranges.shortest
        if length < ranges.longest and self._left > 0:
            all_of_it = self.find(request, start, ranges.longest)
            if all_of_it is not None:
                return self.way(request, start, ranges.longest, all_of_it)
        for _ in range(LONGER_MAX if length < ranges.longest else 0):
            length = self._until_others(plan, start, length, ranges.longest)
            more = min(length + MINUTE, ranges.longest)
            if self._left <= 0 or more <= length:
                break
            further = self.find(request, start, more)
            if further is None:
                break
            plan, length = further, more
        return self.way(request, start, length, plan)

    def way(
        self, request: NormalisedRequest, start: datetime, length: timedelta, plan: Plan
    ) -> Way:
        """The way to have it then, for so long, as planned."""
        fixed = replace(request, start_ms=clock.to_ms(start), duration_ms=_ms(length))
        return _way(narrowed(fixed, plan), plan, self._access)

    def exactly(self, way: Way) -> Way | None:
        """The same, planned for what it has become: host resources go by the devices it takes."""
        if all(len(options) == 1 for options in way.request.lines) and way.request.lines == tuple(
            (line,) for line in way.plan.lines
        ):
            return way
        start, length = clock.from_ms(way.start_ms), timedelta(milliseconds=way.length_ms)
        found = self.find(way.request, start, length)
        return None if found is None else _way(way.request, found, self._access)

    def _until_others(
        self, plan: Plan, start: datetime, length: timedelta, longest: timedelta
    ) -> timedelta:
        """How long these very devices and hosts could go on, in whole minutes."""
        end = self._end(start, length)
        amounts = [(part.node_id, "", part.resources) for part in plan.parts]
        bound = free_time.until(plan.device_ids, amounts, after=end)
        if bound is None:
            return longest
        room = length + (bound - end)
        return min(longest, max(length, room - room % MINUTE))

    def _demand(self, request: NormalisedRequest) -> planning.Demand:
        share = shares.host_share(self._access, request)
        return request.demand(share.booked, replicas=self._access.policy.sharing.replicas)

    def _end(self, start: datetime, length: timedelta) -> datetime:
        return max(start, self._now + GRACE) + length


def narrowed(request: NormalisedRequest, plan: Plan) -> NormalisedRequest:
    """The request with the alternatives that the plan chose, and the count where it is one."""
    lines = tuple(plan.lines)
    counts = {len(part.device_ids) for part in plan.parts}
    spread = request.gang is None and len(plan.parts) > 1
    count = sum(len(part.device_ids) for part in plan.parts) if spread else counts.pop()
    if len(lines) == 1 and (spread or not counts):
        lines = (replace(lines[0], minimum=count, maximum=count),)
    return replace(request, lines=tuple((line,) for line in lines))


def _way(request: NormalisedRequest, plan: Plan, access: PoolAccess) -> Way:
    return Way(request, plan, request.gpu_milli(access.policy.sharing.replicas))


def _cheaper(access: PoolAccess, request: NormalisedRequest) -> list[NormalisedRequest]:
    """The request at its least, by one choice of alternatives each, the cheapest first."""
    replicas = access.policy.sharing.replicas
    choices = itertools.islice(itertools.product(*request.lines), COMBINATIONS_MAX)
    least = [
        replace(
            request,
            lines=tuple((replace(line, maximum=line.minimum),) for line in lines),
        )
        for lines in choices
    ]
    least.sort(key=lambda each: each.gpu_milli(replicas))
    return [each for each in least if each.lines != request.lines][:CHEAPER_MAX]


def _ms(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)
