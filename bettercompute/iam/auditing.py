"""Who may read the audit: admins what was done at their tenant, operators all of it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bettercompute import clock
from bettercompute.audit import queries
from bettercompute.audit.queries import Filters, Position, Row
from bettercompute.iam import access, decisions
from bettercompute.iam.callers import Caller, Identity
from bettercompute.iam.decisions import Attributes
from bettercompute.wire import audit as wire

READ = "compute:audit:read"
ROWS_PER_QUERY = 1_000
EXPORTED_MAX = 10_000


def search(
    caller: Caller, filters: Filters, *, limit: int, after: Position | None = None
) -> list[Row]:
    """What was done at the caller's tenant.

    Raises:
        errors.AccessDenied: a policy denies it.
    """
    tenant = caller.tenant_id
    known = Attributes(tenant=tenant)
    decisions.decide(caller, READ, resource_id=tenant, attributes=known).require()
    rows = queries.search(replace(filters, tenant_id=tenant), limit=limit, after=after)
    return [_shown(row, caller) for row in rows]


def search_all(
    identity: Identity, filters: Filters, *, limit: int, after: Position | None = None
) -> list[Row]:
    """What was done anywhere.

    Raises:
        errors.AccessDenied: only operators read that.
    """
    access.require_operator(identity)
    return queries.search(filters, limit=limit, after=after)


def export(caller: Caller, filters: Filters) -> Iterator[wire.AuditEntry]:
    """The same, for a file: a bounded number, read a part at a time."""
    after: Position | None = None
    for _ in range(EXPORTED_MAX // ROWS_PER_QUERY):
        rows = search(caller, filters, limit=ROWS_PER_QUERY, after=after)
        yield from map(entry, rows)
        if len(rows) < ROWS_PER_QUERY:
            return
        after = Position(rows[-1].at, rows[-1].seq)


def entry(row: Row) -> wire.AuditEntry:
    """An entry on the wire."""
    document: dict[str, Any] = {
        "id": row.id,
        "at": clock.to_ms(row.at),
        "tenant_id": row.tenant_id or None,
        "actor": wire.AuditActor(
            account_id=row.account_id,
            username=row.username,
            role=row.role,
            operator=row.operator,
            via=row.via,
            token_id=row.token_id,
            token_name=row.token_name,
        ),
        "origin": wire.AuditOrigin(
            address=row.address, user_agent=row.user_agent, request_id=row.request_id
        ),
        "action": row.action,
        "object": wire.AuditObject(kind=row.object_kind, id=row.object_id),
        "outcome": row.outcome,
        "code": row.code or None,
        "policies": list(row.policies),
        "detail": row.detail,
    }
    return wire.AuditEntry.model_validate(document)


def _shown(row: Row, caller: Caller) -> Row:
    """A tenant learns what operators did there, and not from where they did it."""
    if row.operator and not caller.is_operator:
        return replace(row, address="", user_agent="")
    return row
