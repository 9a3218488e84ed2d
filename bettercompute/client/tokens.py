"""API tokens of the tenant: made for oneself, listed, ended."""

from collections.abc import Sequence
from typing import cast

from bettercompute.client import accounts, calls, flows, paging
from bettercompute.client.flows import Api, Flow, Pages
from bettercompute.wire.base import TenantBody
from bettercompute.wire.iam import (
    DelegationAsk,
    Holdable,
    Token,
    TokenCreate,
    TokenCreated,
    TokenList,
)


def create(
    api: Api,
    *,
    name: str,
    expires_at: int | None = None,
    agent: str | None = None,
    confirm: Sequence[str] = (),
) -> Flow[TokenCreated]:
    """A token for oneself, for ever or until an instant in epoch milliseconds.

    With the name of an ``agent`` it is for a program that acts for one; the actions in ``confirm``
    (``compute:reservations:create`` …) wait until one confirms them.

    Its ``token`` is in this answer and nowhere else. One whose answer was lost is listed, and can
    be revoked.
    """
    body = TokenCreate(
        tenant_id=(yield from accounts.tenant_id(api)),
        name=name,
        expires_at=expires_at,
        delegation=None if agent is None else _delegation(agent, confirm),
    )
    return (
        yield from flows.exchange(api, calls.post("/tokens", body, TokenCreated, repeatable=False))
    )


def _delegation(agent: str, confirm: Sequence[str]) -> DelegationAsk:
    """Whether these can be held, the server says."""
    held = cast("Sequence[Holdable]", confirm)
    return DelegationAsk.model_construct(agent=agent, confirm=list(held))


def pages(api: Api, *, page_size: int = 50) -> Pages[Token]:
    """One's own tokens without their secrets, newest first; an admin's are all of the tenant's."""
    return paging.pages(api, calls.get("/tokens", TokenList, limit=str(page_size)))


def revoke(api: Api, token_id: str) -> Flow[Token]:
    """End it now; doing so again changes nothing."""
    call = calls.post(
        f"/tokens/{calls.segment(token_id)}/revoke",
        TenantBody(tenant_id=(yield from accounts.tenant_id(api))),
        Token,
        repeatable=True,
    )
    return (yield from flows.exchange(api, call))
