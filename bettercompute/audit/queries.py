"""Reading the audit: newest first, page by page, never counted."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bettercompute import sql
from bettercompute.audit import entries


@dataclass(frozen=True, slots=True)
class Row:
    """An entry as it was written, without what seals it."""

    seq: int
    id: str
    at: datetime
    tenant_id: str
    account_id: str
    username: str
    operator: bool
    role: str
    via: str
    token_id: str
    token_name: str
    address: str
    user_agent: str
    request_id: str
    action: str
    object_kind: str
    object_id: str
    outcome: str
    code: str
    policies: tuple[str, ...]
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Filters:
    """Which entries; each condition only where it is given."""

    tenant_id: str | None = None  #: None: of all tenants, and the platform's
    account_id: str | None = None
    object_id: str | None = None
    action: str | None = None
    outcome: str | None = None
    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where an entry stands in the order of the list."""

    at: datetime
    seq: int


def search(filters: Filters, *, limit: int, after: Position | None = None) -> list[Row]:
    """The newest entries, behind a position."""
    rows = entries.ENTRIES.all(
        "search",
        tenant_id=filters.tenant_id,
        account_id=filters.account_id,
        object_id=filters.object_id,
        action=filters.action,
        outcome=filters.outcome,
        start=filters.start,
        end=filters.end,
        after_at=None if after is None else after.at,
        after_seq=None if after is None else after.seq,
        limit=limit,
    )
    return [_row(row) for row in rows]


def _row(row: sql.Row) -> Row:
    known = dict(zip(Row.__slots__, row, strict=True))
    known["policies"] = tuple(known["policies"])
    known["detail"] = json.loads(known["detail"])
    return Row(**known)
