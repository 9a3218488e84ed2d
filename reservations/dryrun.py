"""What the policies would decide, with a policy that is not saved yet: nothing is stored (R38).

One request, given as attributes or as the body of a create. And the tenant's latest reservations,
each as it was told to the policies when it was made: what its owner held then is not known any more
and counts as nothing.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bettercompute import clock, errors
from bettercompute.iam import cedar, decisions, delegation, memberships, policies
from bettercompute.iam.callers import Caller
from bettercompute.iam.cedar import CompiledSet
from bettercompute.iam.decisions import Attributes
from bettercompute.iam.delegation import Delegation
from bettercompute.iam.policies import Draft
from bettercompute.states import ReservationState
from bettercompute.wire import dryrun as wire
from bettercompute.wire.reservations import ReservationRequest
from pools import attributes, catalogue, quota, requests, shares
from reservations import admission, queries, rights
from reservations.models import Reservation

DRY_RUN = "dry-run"


def judge(caller: Caller, wanted: wire.PolicyDryRun) -> wire.PolicyVerdict:
    """The decision, what it was made on, and how recent reservations would have fared.

    Raises:
        errors.InvalidInput: an unknown action, a text that is no policy or that fails on what it is
            asked, a policy to replace that there is not, a request that is none.
        errors.NotFound: the caller may not book the request's pool.
        errors.AccessDenied: a policy denies reading the tenant's reservations.
        errors.Unavailable: the policy engine cannot decide.
    """
    _check(caller, wanted)
    acting = _acting(caller, wanted)
    draft = None if wanted.text is None else Draft("draft", wanted.text)
    compiled = policies.compiled_with(caller, draft=draft, replaces=wanted.replaces)
    asked = _asked(acting, wanted, compiled)
    try:
        return _verdict(caller, acting, wanted, compiled, asked)
    except errors.Unavailable as error:
        if draft is None:
            raise
        # Without the draft: where that fails as well, it is not the draft's fault.
        saved = policies.compiled_with(caller, draft=None, replaces=wanted.replaces)
        _verdict(caller, acting, wanted, saved, asked)
        raise errors.InvalidInput.at("text", f"cannot decide this: {error.__cause__}") from error


def _acting(caller: Caller, wanted: wire.PolicyDryRun) -> Caller:
    """Who is imagined to ask."""
    acting = replace(caller, role=wanted.role or caller.role)
    if wanted.delegated is None:
        return acting
    return replace(acting, delegation=Delegation(DRY_RUN) if wanted.delegated else None)


def _verdict(
    caller: Caller,
    acting: Caller,
    wanted: wire.PolicyDryRun,
    compiled: CompiledSet,
    asked: Attributes,
) -> wire.PolicyVerdict:
    decision = decisions.judge(
        compiled, acting, wanted.action, resource_id=DRY_RUN, attributes=asked
    )
    return wire.PolicyVerdict(
        effect=decision.effect,
        policies=list(decision.policies),
        message=decision.message,
        details=dict(decision.details),
        attributes=decisions.context(acting, asked),
        recent=_recent(caller, compiled, wanted.recent) if wanted.recent else None,
    )


def _check(caller: Caller, wanted: wire.PolicyDryRun) -> None:
    if wanted.action not in cedar.actions():
        known = ", ".join(sorted(cedar.actions()))
        raise errors.InvalidInput.at("action", f"unknown; there are {known}")
    if wanted.text is not None:
        policies.validate(wanted.text, platform=caller.is_operator)
    if wanted.replaces is not None and not policies.visible(caller).filter(pk=wanted.replaces):
        raise errors.InvalidInput.at("replaces", "is no policy that binds this tenant")
    owner = wanted.attributes.owner
    if owner is not None and not memberships.of_tenant(caller.tenant_id).filter(account_id=owner):
        raise errors.InvalidInput.at("attributes.owner", "is no member of this tenant")
    if wanted.reservation is None:
        return
    if wanted.attributes != wire.AskedAttributes():
        raise errors.InvalidInput.at("reservation", "give this or attributes, not both")
    if wanted.reservation.tenant_id != wanted.tenant_id:
        raise errors.InvalidInput.at("reservation.tenantId", "differs from tenantId")


def _asked(caller: Caller, wanted: wire.PolicyDryRun, compiled: CompiledSet) -> Attributes:
    if wanted.reservation is not None:
        return _of_request(caller, wanted.reservation, compiled)
    said = wanted.attributes.model_dump()
    listed = {name: tuple(said[name]) for name in ("classes", "models")}
    return Attributes(**{**said, **listed})


def _of_request(caller: Caller, wanted: ReservationRequest, compiled: CompiledSet) -> Attributes:
    """What a create with this body would tell the policies now."""
    try:
        request = requests.normalise(wanted, now_ms=clock.now_ms())
        memberships.require(caller.tenant_id, request.users, field="users")
    except errors.InvalidInput as error:
        raise error.within("reservation") from error
    access = catalogue.access_pool(caller, request.pool_id)
    ask = admission.asked(access, request, shares.host_share(access, request))
    held = None
    if decisions.weighs_holdings(compiled):
        held = quota.held(caller.tenant_id, caller.account_id)
    return attributes.beside(ask.attributes, held)


def _recent(caller: Caller, compiled: CompiledSet, number: int) -> wire.RecentVerdicts:
    decisions.decide(
        caller, rights.READ, resource_id=DRY_RUN, attributes=Attributes(tenant=caller.tenant_id)
    ).require()
    found = queries.latest(caller.tenant_id, limit=number)
    known = rights.attributes_of_many(found)
    roles = memberships.roles(caller.tenant_id)
    denied = [_denied(compiled, reservation, known[reservation.id], roles) for reservation in found]
    return wire.RecentVerdicts(
        judged=len(found), denied=[each for each in denied if each is not None]
    )


def _denied(
    compiled: CompiledSet, reservation: Reservation, known: Attributes, roles: Mapping[str, Any]
) -> wire.WouldDeny | None:
    """The denial that its owner would have met; one who has left counts as a member.

    What an agent asked for is judged as an agent's, except where its person was asked (R36).
    """
    asked = bool(reservation.confirmation_id)
    owner = Caller(
        tenant_id=reservation.tenant_id,
        account_id=reservation.owner_id,
        role=roles.get(reservation.owner_id, "member"),
        delegation=delegation.remaining(reservation.agent, confirmed=asked),
    )
    decision = decisions.judge(
        compiled, owner, admission.ACTION, resource_id=reservation.id, attributes=known
    )
    if decision.allowed:
        return None
    return wire.WouldDeny(
        reservation_id=reservation.id,
        owner_identity_id=reservation.owner_id,
        state=ReservationState(reservation.state),
        created_at=clock.to_ms(reservation.created_at),
        policies=list(decision.policies),
        message=decision.message,
    )
