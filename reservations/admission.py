"""Admitting a reservation: the normative sequence (R10), top to bottom.

1. Validate, normalise and hash the request; resolve its share of the hosts.
2. Transaction 1: the draft, its authorization row, the feed's entry.
3. The policy decision, outside any transaction.
4. A denial ends the draft.
5. Allowed: plan from a snapshot; then transaction 2: lock the draft, charge the quota, commit the
   plan by guarded statements or wait pending, write events and wake-ups.

What fails in between leaves the draft, and the same key decides it again.
"""

from dataclasses import asdict, dataclass
from datetime import timedelta

from django.db import transaction

from bettercompute import clock, errors, failpoints, ids
from bettercompute.failpoints import Failpoint
from bettercompute.iam import decisions
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes, Decision
from bettercompute.states import ReservationState
from bettercompute.wire import reservations as wire
from bettercompute.wire.reservations import ReservationRequest
from pools import attributes, catalogue, quota, requests, shares
from pools.catalogue import PoolAccess
from pools.planner.plan import NoFit
from pools.requests import NormalisedRequest
from pools.shares import Share
from reservations import drafts, lifecycle, outcomes, placement, queries
from reservations.drafts import Draft, NewDraft
from reservations.lifecycle import Effects
from reservations.models import Allocation
from reservations.placement import Claim, Placed

ACTION = "compute:reservations:create"


@dataclass(frozen=True, slots=True)
class Admitted:
    """The reservation that a key reached, and whether this request made it."""

    reservation_id: str
    created: bool
    #: as answered, where this request made it; else read it
    shown: wire.Reservation | None = None


def admit(caller: Caller, wanted: ReservationRequest, *, idempotency_key: str) -> Admitted:
    """Create a reservation, or find the one that this key reached before (R8).

    Raises:
        errors.InvalidInput, errors.Unsupported: the request itself.
        errors.NotFound: the caller may not book the pool.
        errors.Conflict: the key was used for a different request.
        errors.AccessDenied: a policy or the pool's limits deny it, now or when first asked.
        errors.QuotaExceeded: the draft stays, for a later try with the same key.
        errors.Unavailable: the policy engine cannot decide; nothing changed.
    """
    request = _normalise(caller, wanted, idempotency_key)
    access = catalogue.access_pool(caller, request.pool_id)
    catalogue.check_binding(access, request)
    share = shares.host_share(access, request)
    asked = attributes.of(access, request, share, now_ms=clock.now_ms())
    new = NewDraft(
        request=request,
        idempotency_key=idempotency_key,
        host_share=share.recorded,
        gpu_milli=request.gpu_milli(access.policy.sharing.replicas),
        attributes=asdict(asked),
    )
    draft = drafts.record(caller, new)
    failpoints.reach(Failpoint.DRAFT_RECORDED)
    if not _awaits_decision(draft):
        return Admitted(draft.id, created=False)
    share = shares.resolve(draft.host_share, request)
    decision = _decide(caller, access, request, draft, asked)
    return _place_allowed(draft, request, access, share, decision)


def _normalise(caller: Caller, wanted: ReservationRequest, key: str) -> NormalisedRequest:
    """The request as of now; or, where its start has passed meanwhile, as of its first try."""
    try:
        return requests.normalise(wanted, now_ms=clock.now_ms())
    except errors.InvalidInput:
        first_tried = drafts.written_at_ms(
            ids.reservation(caller.tenant_id, caller.account_id, key)
        )
        if first_tried is None:
            raise
        return requests.normalise(wanted, now_ms=first_tried)


def _awaits_decision(draft: Draft) -> bool:
    """Whether the draft has yet to be decided; a refused key stays refused (R8)."""
    if draft.state == ReservationState.DENIED:
        raise errors.AccessDenied(
            f"This idempotency key was refused before: {draft.refusal}", reservationId=draft.id
        )
    return draft.state == ReservationState.DRAFT


def _decide(
    caller: Caller, access: PoolAccess, request: NormalisedRequest, draft: Draft, asked: Attributes
) -> Decision:
    """The one decision on the reservation itself; a denial is kept (R10.4)."""
    decision = decisions.decide(caller, ACTION, resource_id=draft.id, attributes=asked)
    beyond = catalogue.refusals(access, request, now_ms=clock.now_ms())
    if decision.allowed and beyond:
        message = f"The pool {access.name} allows: {'; '.join(beyond)}."
        decision = Decision("deny", (), message, {"poolLimits": beyond})
    if not decision.allowed:
        _deny(draft, decision)
        decision.require()
    return decision


def _deny(draft: Draft, decision: Decision) -> None:
    with transaction.atomic(durable=True):
        reservation = queries.locked(draft.id)
        assert reservation is not None
        if reservation.state == ReservationState.DRAFT:
            lifecycle.move(
                reservation,
                ReservationState.DENIED,
                {"decision": _kept(decision), "reason": "denied", "ended_at": reservation.read_at},
            )


def _place_allowed(
    draft: Draft,
    request: NormalisedRequest,
    access: PoolAccess,
    share: Share,
    decision: Decision,
) -> Admitted:
    """Plan outside, then transaction 2. Of two identical requests the second finds it moved."""
    claim = claim_of(draft.id, request, access, share)
    found = NoFit(()) if access.queued else placement.look(claim)
    failpoints.reach(Failpoint.PLACEMENT_PLANNED)
    booked: tuple[Allocation, ...] = ()
    with transaction.atomic(durable=True):
        reservation = queries.locked(draft.id)
        assert reservation is not None
        if reservation.state != ReservationState.DRAFT:
            return Admitted(draft.id, created=False)
        quota.charge(
            reservation.tenant_id,
            reservation.id,
            shares.charges(request, share, access),
            pool_id=reservation.pool_id,
            account_id=reservation.owner_id,
        )
        effects = Effects()
        decided = {"decision": _kept(decision)}
        if access.queued:
            outcomes.queue(reservation, effects, decided)
        else:
            outcome = placement.place(claim, found, now=reservation.read_at)
            outcomes.record(reservation, outcome, effects, decided)
            if isinstance(outcome, Placed):
                booked = outcome.allocations
        effects.flush()
    failpoints.reach(Failpoint.PLACEMENT_COMMITTED)
    return Admitted(draft.id, created=True, shown=queries.placed_answer(reservation, booked))


def _kept(decision: Decision) -> dict[str, object]:
    """What is remembered of a decision: enough to say later who decided."""
    return {
        "effect": decision.effect,
        "policies": list(decision.policies),
        "message": decision.message,
    }


def claim_of(
    reservation_id: str, request: NormalisedRequest, access: PoolAccess, share: Share
) -> Claim:
    """What to place, as the planner and the committer take it."""
    return Claim(
        reservation_id=reservation_id,
        pool_id=access.pool_id,
        demand=request.demand(share.booked, replicas=access.policy.sharing.replicas),
        binding=str(request.binding),
        duration=timedelta(milliseconds=request.duration_ms),
        requested_start=None if request.start_ms is None else clock.from_ms(request.start_ms),
    )
