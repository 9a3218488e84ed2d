"""Taking a capacity offer: a create that gets exactly what was offered, or finds it gone (R21).

The offer fixes the whole request, so the create says nothing but its id; what it says beside that
must not contradict. Once its key has reached a row, the request is read from there: a retry finds
the same reservation though the offer has expired, or is forgotten, meanwhile (R8).
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bettercompute import errors, ids
from bettercompute.iam.callers import Caller
from bettercompute.wire.reservations import OfferTaking, ReservationRequest
from pools import capacity_offers, requests
from pools.planner.plan import NoFit, Plan
from pools.requests import NormalisedRequest
from reservations import drafts, placement
from reservations.placement import Claim, Placed

_BESIDE = {"tenantId", "offerId", "idempotencyKey", "wait"}


def request_of(caller: Caller, wanted: OfferTaking, key: str) -> NormalisedRequest:
    """The request that the offer is for.

    Raises:
        errors.NotFound: the tenant has no such offer.
        errors.Conflict: it has expired; or the key was used for a different request.
        errors.InvalidInput: a field says something else than the offer.
    """
    draft_id = ids.reservation(caller.tenant_id, caller.account_id, key)
    earlier = drafts.request_of(draft_id)
    if earlier is None:
        request = capacity_offers.take(caller.tenant_id, wanted.offer_id).request
    else:
        request = requests.restore(earlier, tenant_id=caller.tenant_id)
    wrong = _contradictions(wanted, request.document)
    if earlier is not None and (request.offer_id != wanted.offer_id or wrong):
        raise errors.Conflict(
            "This idempotency key was used for a different request.", reservationId=draft_id
        )
    if wrong:
        raise errors.InvalidInput(errors=wrong)
    return request


def plan_of(request: NormalisedRequest) -> Plan | None:
    """The devices that were offered; None where it was taken from no offer. Raises as ``take``."""
    if request.offer_id is None:
        return None
    return capacity_offers.take(request.tenant_id, request.offer_id).plan


def place(claim: Claim, found: Plan | NoFit, *, now: datetime) -> Placed:
    """Book what was offered, in the caller's transaction.

    Raises:
        errors.Conflict: somebody was faster; ``details.reason`` is ``offer-gone``.
    """
    assert isinstance(found, Plan), "an offer has a plan"
    placed = placement.place_exactly(claim, found, now=now)
    if placed is None:
        raise errors.Conflict(
            "Somebody was faster: what was offered is gone. Ask for new offers.",
            reason="offer-gone",
        )
    return placed


def _contradictions(wanted: OfferTaking, offered: Mapping[str, Any]) -> list[errors.FieldError]:
    """The fields that are given, and mean something else than what is offered."""
    given = wanted.model_dump(mode="json", by_alias=True, exclude_unset=True)
    said = {name: value for name, value in given.items() if name not in _BESIDE}
    said = {name: value for name, value in said.items() if value is not None}
    if not said:
        return []
    body = {**offered, "tenantId": wanted.tenant_id, **said}
    start = offered.get("start", 0)
    meant = requests.normalise(
        ReservationRequest.model_validate_json(json.dumps(body)), now_ms=start
    ).document
    return [
        errors.FieldError(name, "is not what was offered; leave it out")
        for name in said
        if meant.get(name) != offered.get(name)
    ]
