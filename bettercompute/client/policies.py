"""Policies: the shipped examples, and what would be decided (R38)."""

from typing import Unpack

from bettercompute.client import accounts, calls, flows, reservations
from bettercompute.client.flows import Api, Flow
from bettercompute.client.reservations import RequestFields
from bettercompute.wire.dryrun import PolicyVerdict
from bettercompute.wire.iam import PolicyExample, PolicyExampleList
from bettercompute.wire.reservations import ReservationRequest

CREATE = "compute:reservations:create"


def examples(api: Api) -> Flow[list[PolicyExample]]:
    """Policies to start from; none of them binds anybody until it is saved."""
    call = calls.get("/policies/examples", PolicyExampleList)
    return (yield from flows.exchange(api, call)).items


def try_(
    api: Api,
    request: ReservationRequest | None = None,
    *,
    text: str | None = None,
    replaces: str | None = None,
    role: str | None = None,
    recent: int = 0,
    **fields: Unpack[RequestFields],
) -> Flow[PolicyVerdict]:
    """What a create would be told, with ``text`` as one more policy. Stores nothing.

    With ``recent``, also which of so many latest reservations would have been denied.
    """
    asked = yield from reservations.compose(api, request, fields)
    more = {"text": text, "replaces": replaces, "role": role}
    body = {
        "tenantId": (yield from accounts.tenant_id(api)),
        "action": CREATE,
        "reservation": asked,
        "recent": recent,
        **{name: value for name, value in more.items() if value is not None},
    }
    call = calls.post("/policies/dry-run", body, PolicyVerdict, repeatable=True)
    return (yield from flows.exchange(api, call))
