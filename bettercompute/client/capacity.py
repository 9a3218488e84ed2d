"""Would it fit, and how could it?"""

from typing import Any, Unpack

from bettercompute.client import calls, flows, reservations
from bettercompute.client.flows import Api, Flow
from bettercompute.client.reservations import OfferFields, RequestFields
from bettercompute.wire.capacity import Preview
from bettercompute.wire.capacity_offers import CapacityOffers
from bettercompute.wire.reservations import ReservationRequest


def preview(
    api: Api, request: ReservationRequest | None = None, **fields: Unpack[RequestFields]
) -> Flow[Preview]:
    """Whether a create with this request would fit now, and where; if not, why. Changes nothing."""
    body = yield from reservations.compose(api, request, fields)
    call = calls.post("/capacity/preview", body, Preview, repeatable=True)
    return (yield from flows.exchange(api, call))


def offers(
    api: Api,
    *,
    duration: int | str | dict[str, Any],
    start: int | str | dict[str, Any] | None = None,
    **fields: Unpack[OfferFields],
) -> Flow[CapacityOffers]:
    """Up to six ways to have it, each good for a minute; a create takes one by its ``offer_id``.

    ``start`` may be ``{"earliest": …, "latest": …}``, ``duration`` ``{"min": …, "max": …}``.
    Nothing is held for an offer.
    """
    asked: RequestFields = {}
    asked.update(fields)  # type: ignore[typeddict-item]  # the same, without when and how long
    body = yield from reservations.compose(api, None, asked)
    ranges = {"duration": duration, **({} if start is None else {"start": start})}
    call = calls.post("/capacity/offers", {**body, **ranges}, CapacityOffers, repeatable=True)
    return (yield from flows.exchange(api, call))
