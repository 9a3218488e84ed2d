"""The audit: who did what, and what was refused."""

from bettercompute.client import calls, paging
from bettercompute.client.flows import Api, Pages
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
    call = calls.get(
        "/audit",
        AuditList,
        accountId=account_id,
        objectId=object_id,
        action=action,
        outcome=outcome,
        scope="platform" if platform else None,
        limit=str(page_size),
    )
    spanned = calls.with_query(call, calls.between(start_ms, end_ms))
    return paging.pages(api, spanned, platform=platform)
