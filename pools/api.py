"""REST of pools and quotas (A4)."""

from django.http import HttpResponse
from rest_framework.request import Request

from bettercompute.web import pagination, schema
from bettercompute.web.views import ApiView
from bettercompute.wire import pools as wire
from bettercompute.wire.base import PageQuery, TenantQuery
from pools import fragmentation, queries, quota


class PoolsView(ApiView):
    """What a tenant may book."""

    @schema.describe(query=PageQuery, answers={200: wire.PoolList})
    def get(self, request: Request) -> HttpResponse:
        """List the pools that the tenant owns or is offered, its own first."""
        wanted = self.query(PageQuery)
        return self.answer(queries.page(self.caller(wanted.tenant_id), wanted))


class PoolView(ApiView):
    """One pool."""

    @schema.describe(query=TenantQuery, answers={200: wire.Pool})
    def get(self, request: Request, pool_id: str) -> HttpResponse:
        """Get a pool, with what is free of it now."""
        caller = self.caller(self.query(TenantQuery).tenant_id)
        shown = queries.get(caller, pool_id)
        return self.answer(shown, version=shown.version, live=True)  # what is free now


class TimelineView(ApiView):
    """One pool over time."""

    @schema.describe(query=wire.TimelineQuery, answers={200: wire.Timeline})
    def get(self, request: Request, pool_id: str) -> HttpResponse:
        """Get a pool's bookings and free capacity over a window; foreign ones without names."""
        wanted = self.query(wire.TimelineQuery)
        caller = self.caller(wanted.tenant_id)
        return self.answer(
            queries.timeline(caller, pool_id, start_ms=wanted.start, end_ms=wanted.end)
        )


class FragmentationView(ApiView):
    """One pool's free devices, and how they lie together."""

    @schema.describe(query=TenantQuery, answers={200: wire.Fragmentation})
    def get(self, request: Request, pool_id: str) -> HttpResponse:
        """Get how much of a pool is free in one piece now, by kind of device."""
        caller = self.caller(self.query(TenantQuery).tenant_id)
        return self.answer(fragmentation.of_pool(caller, pool_id))


class QuotasView(ApiView):
    """Quotas of a tenant."""

    @schema.describe(query=PageQuery, answers={200: wire.QuotaList})
    def get(self, request: Request) -> HttpResponse:
        """List what the tenant holds and may hold: over all its pools first, then by pool."""
        wanted = self.query(PageQuery)
        caller = self.caller(wanted.tenant_id)
        shown = [wire.Quota(**row.as_wire()) for row in quota.usage(caller.tenant_id)]
        page = pagination.page("quotas", shown, wanted, by=_quota_order, kinds=(str, str, str))
        return self.answer(wire.QuotaList(items=page.items, next_cursor=page.next_cursor))


def _quota_order(quota: wire.Quota) -> tuple[str, str, str]:
    return quota.pool_id or "", quota.pool_offer_id or "", quota.resource
