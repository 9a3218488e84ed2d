"""Would this fit, where, and if not, why (R20).

The same request, share, policies, quota and planner as a create, and nothing else: no lock, no
write. A preview that fits is a create that fits, as long as nobody else is faster.
"""

from datetime import datetime, timedelta

from bettercompute import clock, errors
from bettercompute.iam import memberships
from bettercompute.iam.callers import Caller
from bettercompute.wire import capacity as wire
from bettercompute.wire.reasons import never
from bettercompute.wire.reservations import ReservationRequest
from pools import (
    catalogue,
    chance,
    earliest,
    judging,
    occurrences,
    prices,
    quota,
    requests,
    shares,
    snapshot,
)
from pools.catalogue import PoolAccess
from pools.planner import reasons as planner
from pools.planner.plan import NoFit, Plan
from pools.requests import NormalisedRequest
from pools.shares import Share


def preview(
    caller: Caller,
    wanted: ReservationRequest,
    *,
    make_room: judging.MakeRoom | None = None,
    beyond: judging.Beyond | None = None,
) -> wire.Preview:
    """The answer for a valid request, whether it fits or not; ``reservations.previews`` is whole.

    Raises:
        errors.InvalidInput, errors.Unsupported: the request itself.
        errors.NotFound: the caller may not book the pool.
        errors.Unavailable: the policy engine cannot decide.
    """
    now = clock.now()
    now_ms = clock.to_ms(now)
    request = requests.normalise(wanted, now_ms=now_ms)
    if request.offer_id is not None:
        raise errors.InvalidInput.at("offerId", "is for a create; what it offers was looked at")
    access = catalogue.access_pool(caller, request.pool_id)
    catalogue.check_binding(access, request)
    memberships.require(caller.tenant_id, wanted.users or (), field="users")
    share = shares.host_share(access, request)
    charges = shares.charges(request, share, access)
    after = quota.after(caller.tenant_id, charges, pool_id=access.pool_id)
    refused = [
        *judging.denials(caller, access, request, share, now_ms),
        *judging.over_quota(after, charges),
        *(() if beyond is None else beyond(access, request, now)),
    ]
    found = _look(access, request, share, now)
    room = None
    if isinstance(found, NoFit) and make_room is not None and not refused:
        room = make_room(access, request, share)
    found = found if room is None else room.plan
    busy = found.reasons if isinstance(found, NoFit) else ()
    told = [planner.answered(reason) for reason in busy]
    reasons = [*refused, *told]
    first = None
    passes = earliest.may_come((reason.filter, reason.until_ms) for reason in busy)
    if passes and not refused and not never(told):
        first = _earliest(caller, access, request, share, now)
    repeated = None
    if request.recurrence is not None:
        asked = occurrences.Asked(request, access, share, charges)
        repeated = occurrences.previewed(
            caller, asked, quotas=after, now=now, make_room=make_room, beyond=beyond
        )
        reasons = next((each.reasons for each in repeated if not each.fits), [])
    return wire.Preview(
        fits=not reasons,
        nodes=_nodes(found),
        quote=prices.quote(gpu_milli=charges[quota.GPU_MILLI], duration_ms=request.duration_ms),
        quota_after=[wire.QuotaAfter(**row.as_wire()) for row in after],
        reasons=reasons,
        earliest=None if first is None else clock.to_ms(first),
        preempts=None if room is None else _preempts(room),
        occurrences=repeated,
    )


def _preempts(room: judging.Room) -> wire.Preemption:
    return wire.Preemption(reservations=room.giving_way, start=clock.to_ms(room.start))


def _earliest(
    caller: Caller, access: PoolAccess, request: NormalisedRequest, share: Share, now: datetime
) -> datetime | None:
    """The first start at which it would fit, and that policies and pool allow."""
    start = _start(request, now)
    ahead = access.policy.max_ahead or requests.YEARS_5_MS
    found = earliest.find(
        access.pool_id,
        request.demand(share.booked, replicas=access.policy.sharing.replicas),
        after=start,
        until=now + timedelta(milliseconds=ahead),
        length=timedelta(milliseconds=request.duration_ms),
        rng=chance.RNG,
    )
    if found is None:
        return None
    then = request.starting(clock.to_ms(found))
    denied = judging.denials(caller, access, then, share, clock.to_ms(now))
    return None if denied else found


def _start(request: NormalisedRequest, now: datetime) -> datetime:
    """When its window begins: a start that has passed is now."""
    whole = clock.whole(now)
    return whole if request.start_ms is None else max(whole, clock.from_ms(request.start_ms))


def _look(
    access: PoolAccess, request: NormalisedRequest, share: Share, now: datetime
) -> Plan | NoFit:
    start = _start(request, now)
    demand = request.demand(share.booked, replicas=access.policy.sharing.replicas)
    return snapshot.find(
        access.pool_id,
        demand,
        start=start,
        end=start + timedelta(milliseconds=request.duration_ms),
        rng=chance.RNG,
    )


def _nodes(found: Plan | NoFit) -> list[wire.PreviewNode]:
    if isinstance(found, NoFit):
        return []
    return [
        wire.PreviewNode(
            node_id=part.node_id, name=part.node_name, device_ids=list(part.device_ids)
        )
        for part in found.parts
    ]
