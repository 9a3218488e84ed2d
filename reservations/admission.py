"""Admitting a reservation: the normative sequence (R10), top to bottom.

1. Validate, normalise and hash the request; resolve its share of the hosts.
2. Transaction 1: the draft, its authorization row, the feed's entry.
3. The policy decision, outside any transaction.
4. A denial ends the draft; what an agent's person has to confirm first waits for them.
5. Allowed: plan from a snapshot; then transaction 2: lock the draft, charge the quota, hold the
   budgets, commit the plan by guarded statements or wait pending, write events and wake-ups.

What fails in between leaves the draft, and the same key decides it again.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.db import transaction

from bettercompute import clock, errors, failpoints, ids
from bettercompute.failpoints import Failpoint
from bettercompute.iam import decisions, memberships
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes, Decision
from bettercompute.states import ReservationState
from bettercompute.wire import endings
from bettercompute.wire import reservations as wire
from bettercompute.wire.reservations import OfferTaking, RequestTerms, ReservationRequest
from pools import attributes, catalogue, quota, requests, shares
from pools.catalogue import PoolAccess
from pools.planner.plan import NoFit, Plan
from pools.quota import Held
from pools.requests import NormalisedRequest
from pools.shares import Share
from reservations import (
    drafts,
    lifecycle,
    opening,
    outcomes,
    placement,
    queries,
    rights,
    spending,
    taking,
)
from reservations.confirming import asking, creating
from reservations.confirming.asking import Approval
from reservations.drafts import Draft, NewDraft
from reservations.lifecycle import Effects
from reservations.models import Allocation, Reservation
from reservations.placement import Claim, Placed, Unplaced
from reservations.spot import preemption

ACTION = "compute:reservations:create"

DECISIONS_MAX = 10


class HoldingsMoved(errors.Unavailable):
    """What you hold changed again and again while this was decided on it; try again."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The reservation that a key reached, and whether this request made it."""

    reservation_id: str
    created: bool
    #: as answered, where this request made it; else read it
    shown: wire.Reservation | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A valid request, and all that it is decided and placed by."""

    request: NormalisedRequest
    access: PoolAccess
    share: Share
    attributes: Attributes
    held: Held | None = None  #: beside it, where a policy weighs that

    def draft(self, idempotency_key: str) -> NewDraft:
        """What is written down before anything is decided."""
        return NewDraft(
            request=self.request,
            idempotency_key=idempotency_key,
            host_share=self.share.recorded,
            gpu_milli=self.request.gpu_milli(self.access.policy.sharing.replicas),
            attributes=decisions.lasting(self.attributes),
        )


def admit(
    caller: Caller, wanted: ReservationRequest | OfferTaking, *, idempotency_key: str
) -> Admitted:
    """Create a reservation, or find the one that this key reached before (R8).

    With a recurrence it is the first occurrence, and brings its series with it.

    Raises:
        errors.InvalidInput, errors.Unsupported: the request itself, or it contradicts its offer.
        errors.NotFound: the caller may not book the pool, or has no such capacity offer.
        errors.Conflict: the key was used for a different request; the offer is gone or expired.
        errors.AccessDenied: a policy or the pool's limits deny it, now or when first asked; or the
            person an agent acts for did.
        errors.ConfirmationRequired: an agent's person has to approve it first; the same key then.
        errors.QuotaExceeded, errors.BudgetExceeded: the draft stays, for a later try with the
            same key.
        errors.Unavailable: the policy engine cannot decide; nothing changed.
    """
    caller = creating_as(caller, wanted)
    request = _normalised(caller, wanted, idempotency_key)
    access = catalogue.access_pool(caller, request.pool_id)
    _check_users(caller, wanted, idempotency_key)
    ask = asked(access, request, shares.host_share(access, request))
    draft = drafts.record(caller, ask.draft(idempotency_key))
    failpoints.reach(Failpoint.DRAFT_RECORDED)
    if not _awaits_decision(caller, draft):
        return Admitted(draft.id, created=False)
    ask = replace(ask, share=shares.resolve(draft.host_share, request))
    for _ in range(DECISIONS_MAX):
        try:
            return _decide_and_place(caller, draft, ask)
        except HoldingsMoved:
            pass  # decide again, on what is held now
    raise HoldingsMoved


def _decide_and_place(caller: Caller, draft: Draft, ask: Ask) -> Admitted:
    ask = weighed(caller, ask, draft.id)
    decision = _decide(caller, ask, draft)
    granted: Approval | None = None
    if decision.effect == "confirm":
        granted = creating.approval(caller, draft.id)
        if granted is None:
            return Admitted(draft.id, created=False)
        decision = decision.confirmed()
    return _place_allowed(caller, draft, ask, decision, granted)


def creating_as(caller: Caller, wanted: RequestTerms) -> Caller:
    """An agent that asks before it shares asks before a create that shares what it makes."""
    if wanted.users and caller.holds(rights.SHARE):
        return caller.asking_before(ACTION)
    return caller


def weighed(caller: Caller, ask: Ask, reservation_id: str) -> Ask:
    """With what its owner, the caller, holds beside it, where a policy weighs that."""
    held = attributes.held(caller, owner_id=caller.account_id, besides=reservation_id)
    return replace(ask, attributes=attributes.beside(ask.attributes, held), held=held)


def asked(access: PoolAccess, request: NormalisedRequest, share: Share) -> Ask:
    """A request in a pool, as policies see it now.

    Raises:
        errors.InvalidInput: the pool has no such binding.
    """
    catalogue.check_binding(access, request)
    known = attributes.of(access, request, share, now_ms=clock.now_ms())
    return Ask(request, access, share, known)


def _normalised(
    caller: Caller, wanted: ReservationRequest | OfferTaking, key: str
) -> NormalisedRequest:
    """The request as of now; or, where its start has passed meanwhile, as of its first try."""
    if not isinstance(wanted, ReservationRequest):
        return taking.request_of(caller, wanted, key)
    try:
        return requests.normalise(wanted, now_ms=clock.now_ms())
    except errors.InvalidInput:
        first_tried = drafts.written_at_ms(
            ids.reservation(caller.tenant_id, caller.account_id, key)
        )
        if first_tried is None:
            raise
        return requests.normalise(wanted, now_ms=first_tried)


def _check_users(caller: Caller, wanted: RequestTerms, key: str) -> None:
    """Only members can be named; whoever has left since the first try changes no answer to it."""
    try:
        memberships.require(caller.tenant_id, wanted.users or (), field="users")
    except errors.InvalidInput:
        first = ids.reservation(caller.tenant_id, caller.account_id, key)
        if drafts.written_at_ms(first) is None:
            raise


def _awaits_decision(caller: Caller, draft: Draft) -> bool:
    """Whether the draft has yet to be decided; a refused key stays refused (R8).

    One that awaits a confirmation is decided again for an agent, which may have come back with it.
    """
    if draft.state == ReservationState.DENIED:
        raise drafts.refused(draft.id, draft.refusal, denied_in=draft.denied_in)
    if draft.state == ReservationState.AWAITING_CONFIRMATION:
        return caller.holds(ACTION)
    return draft.state == ReservationState.DRAFT


def _decide(caller: Caller, ask: Ask, draft: Draft) -> Decision:
    """The one decision on the reservation itself; a denial is kept (R10.4)."""
    decision = judge(caller, ask, draft.id)
    if decision.effect == "deny":
        _deny(caller, draft, decision)
        decision.require()
    return decision


def judge(caller: Caller, ask: Ask, reservation_id: str) -> Decision:
    """What the policies and the pool's limits say to it."""
    decision = decisions.decide(
        caller, ACTION, resource_id=reservation_id, attributes=ask.attributes
    )
    beyond = catalogue.refusals(ask.access, ask.request, now_ms=clock.now_ms())
    if decision.effect != "deny" and beyond:
        message = f"The pool {ask.access.name} allows: {'; '.join(beyond)}."
        return Decision("deny", (), message, {"poolLimits": beyond})
    return decision


def _deny(caller: Caller, draft: Draft, decision: Decision) -> None:
    with transaction.atomic(durable=True):
        reservation = queries.locked(draft.id)
        assert reservation is not None
        if reservation.state == ReservationState.DRAFT:
            lifecycle.move(
                reservation,
                ReservationState.DENIED,
                {
                    "decision": kept(decision),
                    "reason": endings.DENIED,
                    "agent": caller.agent,
                    "ended_at": reservation.read_at,
                },
            )
        elif reservation.state == ReservationState.AWAITING_CONFIRMATION:
            effects = Effects()
            creating.refuse(reservation, kept(decision), effects)
            effects.flush()


def _place_allowed(
    caller: Caller, draft: Draft, ask: Ask, decision: Decision, granted: Approval | None
) -> Admitted:
    """Plan outside, then transaction 2. Of two identical requests the second finds it moved."""
    found = taking.plan_of(ask.request) or look(ask, draft.id)
    failpoints.reach(Failpoint.PLACEMENT_PLANNED)
    booked: tuple[Allocation, ...] = ()
    request = ask.request
    with transaction.atomic(durable=True):
        # Its draft may be from another, who used the same key, and was over a quota then.
        values: dict[str, Any] = {"agent": caller.agent}
        effects = Effects()
        if request.recurrence is not None:
            series = opening.open_series(
                caller,
                draft.id,
                request,
                decision=kept(decision),
                confirmation_id="" if granted is None else granted.confirmation_id,
            )
            values |= opening.of_first(series, request)
            opening.tell(effects, series, caller, request.pool_id)
        reservation = queries.locked(draft.id)
        assert reservation is not None
        if reservation.state == ReservationState.DENIED:  # an approval was withdrawn meanwhile
            raise drafts.refusal(reservation)
        if reservation.state != _decided_in(granted):
            transaction.set_rollback(True)  # with the series, if it opened one
            return Admitted(draft.id, created=False)
        outcome = commit(reservation, ask, found, decision=decision, effects=effects, **values)
        if isinstance(outcome, Placed):
            booked = outcome.allocations
        asking.use(granted)
        effects.flush()
    failpoints.reach(Failpoint.PLACEMENT_COMMITTED)
    if not booked and not ask.access.queued:
        claim = claim_of(draft.id, request, ask.access, ask.share)
        if preemption.try_preempt(claim, _transaction):
            return Admitted(draft.id, created=True)
    return Admitted(draft.id, created=True, shown=queries.placed_answer(reservation, booked))


def _decided_in(granted: Approval | None) -> ReservationState:
    """The state that transaction 2 starts from: with an approval, what awaited it."""
    if granted is None:
        return ReservationState.DRAFT
    return ReservationState.AWAITING_CONFIRMATION


def _transaction() -> transaction.Atomic:
    return transaction.atomic(durable=True)


def look(ask: Ask, reservation_id: str) -> Plan | NoFit:
    """Where it would fit now; a pool with a placer of its own is not looked at."""
    if ask.access.queued:
        return NoFit(())
    return placement.look(claim_of(reservation_id, ask.request, ask.access, ask.share))


def commit(
    reservation: Reservation,
    ask: Ask,
    found: Plan | NoFit,
    *,
    decision: Decision,
    effects: Effects,
    **values: Any,
) -> Placed | Unplaced | None:
    """Charge a locked draft and place it, or have it wait; None where the pool's placer places it.

    Raises:
        errors.QuotaExceeded, errors.BudgetExceeded: nothing is charged.
        HoldingsMoved: it was decided on what its owner held before.
    """
    charges = shares.charges(ask.request, ask.share, ask.access)
    quota.charge(
        reservation.tenant_id,
        reservation.id,
        charges,
        pool_id=reservation.pool_id,
        account_id=reservation.owner_id,
    )
    # Under the lock of the tenant's quota: whoever charges the same tenant comes before or after.
    if ask.held is not None and ask.held != _held_beside(reservation):
        raise HoldingsMoved
    if ask.access.budgeted:
        now = reservation.read_at
        spending.require(spending.claim(ask.access, ask.request, reservation.tenant_id, now=now))
    decided = {"decision": kept(decision), **values}
    if ask.access.queued and ask.request.offer_id is None:
        outcomes.queue(reservation, effects, decided)
        return None
    claim = claim_of(reservation.id, ask.request, ask.access, ask.share)
    place = placement.place if ask.request.offer_id is None else taking.place
    outcome = place(claim, found, now=reservation.read_at)
    outcomes.record(reservation, outcome, effects, decided)
    return outcome


def _held_beside(reservation: Reservation) -> Held:
    return quota.held(reservation.tenant_id, reservation.owner_id, besides=reservation.id)


def kept(decision: Decision) -> dict[str, object]:
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
        preempts=None if request.spot else access.policy.spot,
    )
