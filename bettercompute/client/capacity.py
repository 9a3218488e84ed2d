"""Would it fit?"""

from typing import Unpack

from bettercompute.client import calls, flows, reservations
from bettercompute.client.flows import Api, Flow
from bettercompute.client.reservations import RequestFields
from bettercompute.wire.capacity import Preview
from bettercompute.wire.reservations import ReservationRequest


def preview(
    api: Api, request: ReservationRequest | None = None, **fields: Unpack[RequestFields]
) -> Flow[Preview]:
    """Whether a create with this request would fit now, and where; if not, why. Changes nothing."""
    body = yield from reservations.compose(api, request, fields)
    call = calls.post("/capacity/preview", body, Preview, repeatable=True)
    return (yield from flows.exchange(api, call))
