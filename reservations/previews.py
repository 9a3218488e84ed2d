"""The preview with all that a create would do, preemption and budgets too (R19, R20, R39)."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from bettercompute.iam.callers import Caller
from bettercompute.wire.capacity import Preview
from bettercompute.wire.capacity_offers import CapacityOffers, CapacityOffersRequest
from bettercompute.wire.reasons import Reason
from bettercompute.wire.reservations import ReservationRequest
from pools import capacity_offers, judging
from pools import preview as capacity
from pools.catalogue import PoolAccess
from pools.judging import Room
from pools.requests import NormalisedRequest
from pools.shares import Share
from reservations import admission, spending
from reservations.spot import preemption


def preview(caller: Caller, wanted: ReservationRequest) -> Preview:
    """Whether it fits, or would fit by spot giving way. Raises what ``pools.preview`` does."""
    caller = admission.creating_as(caller, wanted)
    shown = capacity.preview(
        caller, wanted, make_room=_make_room, beyond=partial(_over_budget, caller)
    )
    held = caller.holds(admission.ACTION)
    return shown.model_copy(update={"needs_confirmation": True}) if held else shown


def offers(caller: Caller, wanted: CapacityOffersRequest) -> CapacityOffers:
    """Ways to have it that the caller may have. Raises what ``pools.capacity_offers`` does."""
    return capacity_offers.offers(caller, wanted, beyond=partial(_over_budget, caller))


def _over_budget(
    caller: Caller,
    access: PoolAccess,
    request: NormalisedRequest,
    now: datetime,
    *,
    beside: Sequence[NormalisedRequest] = (),
) -> Sequence[Reason]:
    """The budgets that a create would pass."""
    if not access.budgeted:
        return ()
    asked, *before = (
        spending.claim(access, each, caller.tenant_id, now=now) for each in (request, *beside)
    )
    return spending.reasons(asked, beside=before)


def _make_room(access: PoolAccess, request: NormalisedRequest, share: Share) -> Room | None:
    """Who a create would make give way."""
    claim = admission.claim_of(judging.NOT_YET_AN_ID, request, access, share)
    chosen = preemption.look(claim)
    if chosen is None:
        return None
    return Room(chosen.plan, chosen.start, giving_way=len(chosen.victims))
