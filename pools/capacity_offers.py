"""Capacity offers: up to six ways to have what is asked for, each good for a minute (R21).

An offer holds nothing. It fixes the request, the window and the devices; a create with its id takes
exactly these or finds them gone. Not to be confused with the offer of a pool to another tenant.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from bettercompute import clock, errors, ids, sql
from bettercompute.iam import memberships
from bettercompute.iam.callers import Caller
from bettercompute.wire import capacity_offers as wire
from bettercompute.wire.capacity import PreviewNode
from bettercompute.wire.capacity_offers import OfferKind
from bettercompute.wire.reasons import Filter, Reason
from bettercompute.wire.reservations import ReservationRequest, Window
from pools import alternatives, catalogue, chance, judging, preview, prices, requests, shares
from pools.alternatives import Ranges, Ranked, Way
from pools.catalogue import PoolAccess
from pools.judging import Beyond
from pools.planner.packing import Part
from pools.planner.plan import Plan
from pools.requests import NormalisedRequest

OFFERS = sql.load(__package__, "capacity_offers")

GOOD_FOR = alternatives.GRACE
REMEMBERED = timedelta(hours=1)  # so that who is late hears "expired"
SWEEP_MAX = 10_000

IN_TURN = "this pool places requests in turn; a preview says what would fit"

#: What is said of the first of its kind, of what is as good, and of what comes next.
_WHY = {
    OfferKind.SOONEST: ("starts soonest", "starts as soon", "starts next"),
    OfferKind.CHEAPEST: ("costs least", "costs no more", "costs little more"),
    OfferKind.LONGEST: ("lasts longest", "lasts as long", "lasts next longest"),
}
_MEASURED: Mapping[OfferKind, Callable[[Way], int]] = {
    OfferKind.SOONEST: lambda way: way.start_ms,
    OfferKind.CHEAPEST: lambda way: way.cost,
    OfferKind.LONGEST: lambda way: -way.length_ms,
}


@dataclass(frozen=True, slots=True)
class Offered:
    """What an offer that is still good fixes."""

    request: NormalisedRequest
    plan: Plan


def offers(
    caller: Caller, wanted: wire.CapacityOffersRequest, *, beyond: Beyond | None = None
) -> wire.CapacityOffers:
    """What the caller could have, the best first; where that is nothing, why.

    Raises:
        errors.InvalidInput, errors.Unsupported: the request itself.
        errors.NotFound: the caller may not book the pool.
        errors.Unavailable: the policy engine cannot decide.
    """
    if wanted.recurrence is not None:
        raise errors.Unsupported(
            "An offer is one window; leave recurrence out.", field="recurrence"
        )
    now = clock.whole(clock.now())
    request, ranges = _parse(wanted, now)
    access = catalogue.access_pool(caller, request.pool_id)
    catalogue.check_binding(access, request)
    memberships.require(caller.tenant_id, request.users, field="users")
    if access.queued:  # what it offered would pass by those who wait in line
        return wire.CapacityOffers(offers=[], reasons=[Reason(filter=Filter.POLICY, needs=IN_TURN)])
    ways = alternatives.search(
        access, request, _within(access, ranges, now), now=now, rng=chance.RNG
    )
    may_have = [
        way
        for way in _unlike(ways)
        if not judging.why_not(
            caller,
            access,
            way.request,
            shares.host_share(access, way.request),
            now=now,
            beyond=beyond,
        )
    ]
    ranked = alternatives.rank(may_have)
    if not ranked:
        return _none(caller, wanted, request, beyond)
    return wire.CapacityOffers(offers=_make(caller, access, ranked))


def take(tenant_id: str, offer_id: str) -> Offered:
    """What an offer fixes, for whoever creates from it.

    Raises:
        errors.NotFound: there is none, it expired long ago, or it is another tenant's;
            ``details.reason`` is ``offer-unknown``.
        errors.Conflict: it has expired; ``details.reason`` is ``offer-expired``.
    """
    row = OFFERS.one("read", id=offer_id, tenant_id=tenant_id)
    if row is None:
        raise errors.NotFound(
            f"There is no capacity offer {offer_id[:100]} in this tenant, or it expired long ago.",
            reason="offer-unknown",
        )
    document, parts, expires_at, expired = row
    if expired:
        raise errors.Conflict(
            "This offer has expired; ask for new ones.",
            reason="offer-expired",
            offerId=offer_id,
            expiresAt=clock.to_ms(expires_at),
        )
    request = replace(
        requests.restore(json.loads(document), tenant_id=tenant_id), offer_id=offer_id
    )
    return Offered(request, _plan(request, json.loads(parts)))


def sweep() -> int:
    """Forget offers that nobody can take any more; answers how many."""
    return OFFERS.run("forget", age=REMEMBERED, limit=SWEEP_MAX)


def _parse(wanted: wire.CapacityOffersRequest, now: datetime) -> tuple[NormalisedRequest, Ranges]:
    """The request at its first start for its shortest time, and how far both may go."""
    wrong: list[errors.FieldError] = []
    now_ms = clock.to_ms(now)
    shortest, longest = _durations(wanted.duration, wrong)
    first, last = _starts(wanted.start, wrong, now_ms=now_ms)
    if wrong:
        raise errors.InvalidInput(errors=wrong)
    given = wanted.model_dump(mode="json", by_alias=True, exclude_unset=True)
    body = {**given, "duration": shortest, "start": first}
    request = requests.normalise(
        ReservationRequest.model_validate_json(json.dumps(body)), now_ms=now_ms
    )
    first = max(first, now_ms)
    ranges = Ranges(
        first=clock.from_ms(first),
        last=clock.from_ms(max(first, last)),
        shortest=timedelta(milliseconds=shortest),
        longest=timedelta(milliseconds=longest),
    )
    return replace(request, start_ms=first), ranges


def _within(access: PoolAccess, ranges: Ranges, now: datetime) -> Ranges:
    """As far as the limits of the pool let them go; what is beyond at its least is refused."""
    ahead, longest = access.policy.max_ahead, access.policy.max_duration
    if ahead is not None:
        last = min(ranges.last, now + timedelta(milliseconds=ahead))
        ranges = replace(ranges, last=max(ranges.first, last))
    if longest is not None:
        most = min(ranges.longest, timedelta(milliseconds=longest))
        ranges = replace(ranges, longest=max(ranges.shortest, most))
    return ranges


def _durations(
    given: int | str | wire.DurationRange, wrong: list[errors.FieldError]
) -> tuple[int, int]:
    if not isinstance(given, wire.DurationRange):
        only = requests.duration(given, "duration", wrong)
        return only, only
    shortest = requests.duration(given.min, "duration.min", wrong)
    longest = requests.duration(given.max, "duration.max", wrong)
    if shortest > longest and not wrong:
        wrong.append(errors.FieldError("duration.min", "must be at most max"))
    return shortest, longest


def _starts(
    given: int | str | wire.StartRange | None, wrong: list[errors.FieldError], *, now_ms: int
) -> tuple[int, int]:
    if not isinstance(given, wire.StartRange):
        only = requests.start(given, "start", wrong, now_ms=now_ms)
        return (now_ms, now_ms) if only is None else (only, only)
    first = requests.start(given.earliest, "start.earliest", wrong, now_ms=now_ms)
    last = requests.start(given.latest, "start.latest", wrong, now_ms=now_ms)
    first = now_ms if first is None else first
    last = first if last is None else last
    if last < first and not wrong:
        wrong.append(errors.FieldError("start.latest", "must not be before earliest"))
    return first, last


def _unlike(ways: Sequence[Way]) -> list[Way]:
    """Each window and cost once."""
    return list({way.key: way for way in ways}.values())


def _none(
    caller: Caller,
    wanted: wire.CapacityOffersRequest,
    request: NormalisedRequest,
    beyond: Beyond | None,
) -> wire.CapacityOffers:
    """No offer, and why: as a preview of the first start and the shortest time says it."""
    given = wanted.model_dump(mode="json", by_alias=True, exclude_unset=True)
    body = {**given, "duration": request.duration_ms, "start": request.start_ms}
    asked = ReservationRequest.model_validate_json(json.dumps(body))
    found = preview.preview(caller, asked, beyond=beyond)
    return wire.CapacityOffers(offers=[], reasons=found.reasons, earliest=found.earliest)


def _make(caller: Caller, access: PoolAccess, ranked: Sequence[Ranked]) -> list[wire.CapacityOffer]:
    """Write them down; answers them in their order."""
    made = {ids.new("cof"): each for each in ranked}
    documents = [
        {
            "id": offer_id,
            "kinds": list(map(str, each.kinds)),
            "request": each.way.request.document,
            "parts": [asdict(part) for part in each.way.plan.parts],
        }
        for offer_id, each in made.items()
    ]
    rows = OFFERS.all(
        "make",
        tenant_id=caller.tenant_id,
        pool_id=access.pool_id,
        offers=json.dumps(documents),
        seconds=GOOD_FOR.total_seconds(),
    )
    expires: dict[str, datetime] = dict(rows)
    ways = [each.way for each in ranked]
    return [
        _answered(offer_id, each, ways=ways, expires_at=expires[offer_id])
        for offer_id, each in made.items()
    ]


def _answered(
    offer_id: str, ranked: Ranked, *, ways: Sequence[Way], expires_at: datetime
) -> wire.CapacityOffer:
    way = ranked.way
    return wire.CapacityOffer(
        id=offer_id,
        kinds=list(ranked.kinds),
        why=why(ranked, ways),
        during=Window(start=way.start_ms, end=way.start_ms + way.length_ms),
        request=way.request.document,
        nodes=[
            PreviewNode(node_id=part.node_id, name=part.node_name, device_ids=list(part.device_ids))
            for part in way.plan.parts
        ],
        quote=prices.quote(gpu_milli=way.gpu_milli, duration_ms=way.length_ms),
        expires_at=clock.to_ms(expires_at),
    )


def why(ranked: Ranked, ways: Sequence[Way]) -> str:
    """What speaks for it among these ways: ``Starts soonest and lasts as long.``"""
    words = [_WHY[kind][_place(ranked, kind, ways)] for kind in ranked.kinds]
    told = " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    return f"{told[:1].upper()}{told[1:]}."


def _place(ranked: Ranked, kind: OfferKind, ways: Sequence[Way]) -> int:
    """0: the first of its kind; 1: as good as that; 2: the next."""
    measured = _MEASURED[kind]
    if ranked.best:
        return 0
    return 1 if measured(ranked.way) == min(map(measured, ways)) else 2


def _plan(request: NormalisedRequest, parts: Sequence[dict[str, object]]) -> Plan:
    made = [
        Part(
            node_id=str(part["node_id"]),
            node_name=str(part["node_name"]),
            device_ids=tuple(part["device_ids"]),  # type: ignore[arg-type]  # a list in JSON
            resources=dict(part["resources"]),  # type: ignore[call-overload]  # an object
        )
        for part in parts
    ]
    return Plan(tuple(made), tuple(options[0] for options in request.lines))
