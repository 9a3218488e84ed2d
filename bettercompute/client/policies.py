"""Policies: those that bind, the shipped examples, and what would be decided (R38)."""

from typing import Unpack

from bettercompute.client import accounts, calls, flows, paging, reservations
from bettercompute.client.flows import Api, Flow
from bettercompute.client.reservations import RequestFields
from bettercompute.wire.dryrun import PolicyVerdict
from bettercompute.wire.iam import (
    Policy,
    PolicyExample,
    PolicyExampleList,
    PolicyList,
    PolicyScope,
    PolicyWrite,
)
from bettercompute.wire.reservations import ReservationRequest

CREATE = "compute:reservations:create"


def examples(api: Api) -> Flow[list[PolicyExample]]:
    """Policies to start from; none of them binds anybody until it is saved."""
    return (yield from paging.whole(api, calls.get("/policies/examples", PolicyExampleList)))


def list_(api: Api) -> Flow[list[Policy]]:
    """The policies that bind the tenant, the platform's first."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    return (yield from paging.whole(api, calls.get("/policies", PolicyList, tenantId=tenant_id)))


def get(api: Api, policy_id: str) -> Flow[Policy]:
    """One of them."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    call = calls.get(f"/policies/{calls.segment(policy_id)}", Policy, tenantId=tenant_id)
    return (yield from flows.exchange(api, call))


def create(
    api: Api, *, name: str, text: str, enabled: bool = True, scope: PolicyScope = "tenant"
) -> Flow[Policy]:
    """Save a policy; it binds from the next request on. ``scope="platform"`` is the operators'.

    Raises:
        failures.InvalidInput: the text is no policy of the schema.
        failures.Conflict: there is one of this name.
    """
    body = PolicyWrite(
        tenant_id=(yield from accounts.tenant_id(api)),
        scope=scope,
        name=name,
        text=text,
        enabled=enabled,
    )
    # A repetition would meet the first one's name, and say that it is taken.
    call = calls.post("/policies", body, Policy, repeatable=False)
    return (yield from flows.exchange(api, call))


def replace(
    api: Api,
    policy_id: str,
    *,
    name: str,
    text: str,
    enabled: bool = True,
    scope: PolicyScope = "tenant",
    version: int | None = None,
) -> Flow[Policy]:
    """Save another text of it. With ``version``, only if it is the current one."""
    body = PolicyWrite(
        tenant_id=(yield from accounts.tenant_id(api)),
        scope=scope,
        name=name,
        text=text,
        enabled=enabled,
    )
    path = f"/policies/{calls.segment(policy_id)}"
    call = calls.put(path, body, Policy, headers=calls.if_match(version))
    return (yield from flows.exchange(api, call))


def delete(api: Api, policy_id: str, *, version: int | None = None) -> Flow[None]:
    """Have it bind nobody any more. With ``version``, only if it is the current one."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    path = f"/policies/{calls.segment(policy_id)}"
    call = calls.delete(path, headers=calls.if_match(version), tenantId=tenant_id)
    return (yield from flows.exchange(api, call))


def try_(
    api: Api,
    request: ReservationRequest | None = None,
    *,
    text: str | None = None,
    replaces: str | None = None,
    role: str | None = None,
    delegated: bool | None = None,
    recent: int = 0,
    **fields: Unpack[RequestFields],
) -> Flow[PolicyVerdict]:
    """What a create would be told, with ``text`` as one more policy. Stores nothing.

    ``delegated`` says whether an agent asks; by default as you do.
    With ``recent``, also which of so many latest reservations would have been denied.
    """
    asked = yield from reservations.compose(api, request, fields)
    more = {"text": text, "replaces": replaces, "role": role, "delegated": delegated}
    body = {
        "tenantId": (yield from accounts.tenant_id(api)),
        "action": CREATE,
        "reservation": asked,
        "recent": recent,
        **{name: value for name, value in more.items() if value is not None},
    }
    call = calls.post("/policies/dry-run", body, PolicyVerdict, repeatable=True)
    return (yield from flows.exchange(api, call))
