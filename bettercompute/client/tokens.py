"""API tokens of the tenant: made for oneself, listed, ended."""

from bettercompute.client import accounts, calls, flows, paging
from bettercompute.client.flows import Api, Flow, Pages
from bettercompute.wire.base import TenantBody
from bettercompute.wire.iam import Token, TokenCreate, TokenCreated, TokenList


def create(api: Api, *, name: str, expires_at: int | None = None) -> Flow[TokenCreated]:
    """A token for oneself, for ever or until an instant in epoch milliseconds.

    Its ``token`` is in this answer and nowhere else. One whose answer was lost is listed, and can
    be revoked.
    """
    body = TokenCreate(
        tenant_id=(yield from accounts.tenant_id(api)), name=name, expires_at=expires_at
    )
    return (
        yield from flows.exchange(api, calls.post("/tokens", body, TokenCreated, repeatable=False))
    )


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
