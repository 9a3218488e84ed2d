"""The audit: who did what, and what was refused."""

from bettercompute.client import accounts, calls, paging
from bettercompute.client.flows import Api, Flow, Pages
from bettercompute.wire.audit import AuditEntry, AuditList, Outcome


def pages(
    api: Api,
    *,
    account_id: str | None = None,
    object_id: str | None = None,
    action: str | None = None,
    outcome: Outcome | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
    platform: bool = False,
    page_size: int = 200,
) -> Pages[AuditEntry]:
    """What was done at the tenant, newest first, for its admins.

    With ``platform`` an operator reads what was done everywhere.
    """
    asked = {
        "accountId": account_id,
        "objectId": object_id,
        "action": action,
        "outcome": outcome,
        "from": None if start_ms is None else str(start_ms),
        "to": None if end_ms is None else str(end_ms),
        "scope": "platform" if platform else None,
        "limit": str(page_size),
    }

    def page(cursor: str | None) -> Flow[tuple[list[AuditEntry], str | None]]:
        tenant_id = None if platform else (yield from accounts.tenant_id_if_named(api))
        call = calls.get("/audit", AuditList, tenantId=tenant_id, **asked)
        return (yield from paging.page(api, call, cursor))

    return page
