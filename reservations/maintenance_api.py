"""REST of planned maintenance: its answers say whose reservations it meets (A4, N18)."""

from django.http import HttpResponse
from rest_framework.request import Request

from bettercompute.errors import InvalidState
from bettercompute.web import pagination, schema
from bettercompute.web.views import ApiView
from bettercompute.wire import maintenance as wire
from bettercompute.wire.base import PageQuery, TenantQuery
from reservations import maintenance

LIST = "maintenance"
_ORDERED_BY: tuple[type[int], type[str]] = (int, str)
_ANNOUNCED = {201: wire.MaintenanceOperation, 200: wire.MaintenanceOperation}


class PoolMaintenanceView(ApiView):
    """Maintenance of a pool and its nodes."""

    @schema.describe(query=PageQuery, answers={200: wire.MaintenanceList})
    def get(self, request: Request, pool_id: str) -> HttpResponse:
        """List what is planned or under way in a pool, by start."""
        wanted = _wanted(self)
        windows = maintenance.of_pool(self.caller(wanted.tenant_id), pool_id)
        return self.answer(_page(windows, wanted))

    @schema.describe(body=wire.MaintenanceRequest, answers=_ANNOUNCED, raises=[InvalidState])
    def post(self, request: Request, pool_id: str) -> HttpResponse:
        """Announce maintenance of all of a pool, or with `preview` say whom it would meet."""
        wanted = self.body(wire.MaintenanceRequest)
        caller = self.caller(wanted.tenant_id)
        done, created = maintenance.announce(caller, wanted, pool_id=pool_id)
        return self.answer(done, status=201 if created else 200)


class NodeMaintenanceView(ApiView):
    """Maintenance of a node."""

    @schema.describe(query=PageQuery, answers={200: wire.MaintenanceList})
    def get(self, request: Request, node_id: str) -> HttpResponse:
        """List what is planned or under way of a node, its pool's included, by start."""
        wanted = _wanted(self)
        windows = maintenance.of_node(self.caller(wanted.tenant_id), node_id)
        return self.answer(_page(windows, wanted))

    @schema.describe(body=wire.MaintenanceRequest, answers=_ANNOUNCED, raises=[InvalidState])
    def post(self, request: Request, node_id: str) -> HttpResponse:
        """Announce maintenance of a node, or with `preview` say whom it would meet."""
        wanted = self.body(wire.MaintenanceRequest)
        caller = self.caller(wanted.tenant_id)
        done, created = maintenance.announce(caller, wanted, node_id=node_id)
        return self.answer(done, status=201 if created else 200)


class MaintenanceView(ApiView):
    """One of them."""

    @schema.describe(query=TenantQuery, answers={200: wire.MaintenanceDetails})
    def get(self, request: Request, maintenance_id: str) -> HttpResponse:
        """Get announced maintenance, with whose reservations it meets."""
        caller = self.caller(self.query(TenantQuery).tenant_id)
        shown = maintenance.get(caller, maintenance_id)
        return self.answer(shown, version=shown.version, live=True)  # whom it meets


class MaintenanceCancelView(ApiView):
    """Calling one off."""

    @schema.describe(
        body=wire.MaintenanceVerb,
        answers={200: wire.MaintenanceOperation},
        raises=[InvalidState],
        if_match=True,
    )
    def post(self, request: Request, maintenance_id: str) -> HttpResponse:
        """Cancel announced maintenance, or with `preview` say whom it meets."""
        wanted = self.body(wire.MaintenanceVerb)
        done = maintenance.cancel(
            self.caller(wanted.tenant_id),
            maintenance_id,
            preview=wanted.preview,
            if_match=self.if_match(),
        )
        version = None if done.maintenance is None else done.maintenance.version
        return self.answer(done, version=version)


def _wanted(view: ApiView) -> PageQuery:
    wanted = view.query(PageQuery)
    pagination.check(LIST, wanted, *_ORDERED_BY)
    return wanted


def _page(windows: list[wire.Maintenance], wanted: PageQuery) -> wire.MaintenanceList:
    page = pagination.page(LIST, windows, wanted, by=_order, kinds=_ORDERED_BY)
    return wire.MaintenanceList(items=page.items, next_cursor=page.next_cursor)


def _order(window: wire.Maintenance) -> tuple[int, str]:
    return window.start, window.id
