"""REST of the audit."""

from datetime import UTC, datetime, timedelta

from django.http import HttpResponse
from rest_framework.request import Request

from bettercompute import clock
from bettercompute.audit.queries import Filters, Position, Row
from bettercompute.errors import InvalidInput
from bettercompute.iam import auditing
from bettercompute.web import pagination, schema
from bettercompute.web.views import ApiView
from bettercompute.wire import audit as wire

CURSOR = "audit"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SEQ_MAX = 2**63 - 1


class AuditView(ApiView):
    """Who did what."""

    @schema.describe(query=wire.AuditQuery, answers={200: wire.AuditList}, tag="audit")
    def get(self, request: Request) -> HttpResponse:
        """List who did what and what was refused, newest first: of a tenant for its admins."""
        wanted = self.query(wire.AuditQuery)
        rows = self._rows(wanted)
        shown, more = rows[: wanted.limit], len(rows) > wanted.limit
        cursor = _cursor(shown[-1]) if more else None
        items = [auditing.entry(row) for row in shown]
        return self.answer(wire.AuditList(items=items, next_cursor=cursor))

    def _rows(self, wanted: wire.AuditQuery) -> list[Row]:
        filters = _filters(wanted)
        after = None if wanted.cursor is None else _position(wanted.cursor)
        limit = wanted.limit + 1
        if wanted.scope == "platform":
            return auditing.search_all(self.identity, filters, limit=limit, after=after)
        caller = self.caller(wanted.tenant_id)
        return auditing.search(caller, filters, limit=limit, after=after)


def _filters(wanted: wire.AuditQuery) -> Filters:
    return Filters(
        tenant_id=wanted.tenant_id,
        account_id=wanted.account_id,
        object_id=wanted.object_id,
        action=wanted.action,
        outcome=wanted.outcome,
        start=None if wanted.start is None else clock.from_ms(wanted.start),
        end=None if wanted.end is None else clock.from_ms(wanted.end),
    )


def _cursor(row: Row) -> str:
    return pagination.encode(CURSOR, (row.at - _EPOCH) // _MICROSECOND, row.seq)


def _position(cursor: str) -> Position:
    microseconds, seq = pagination.decode(CURSOR, cursor, int, int)
    try:
        at = _EPOCH + int(microseconds) * _MICROSECOND
    except OverflowError as error:
        raise InvalidInput.at("cursor", "not a cursor of this list") from error
    if not 0 <= int(seq) <= _SEQ_MAX:
        raise InvalidInput.at("cursor", "not a cursor of this list")
    return Position(at, int(seq))
