"""REST of nodes, for operators and owners of pools (A4)."""

from typing import Protocol

from django.http import HttpResponse
from rest_framework.request import Request

from bettercompute.iam.callers import Caller
from bettercompute.web import schema
from bettercompute.web.views import ApiView
from bettercompute.wire import nodes as wire
from bettercompute.wire.base import TenantQuery
from nodes import queries
from nodes.operations import cordon
from nodes.queries import Filters


class NodesView(ApiView):
    """The nodes of the tenant's pools; an operator's are all."""

    @schema.describe(query=wire.NodeQuery, answers={200: wire.NodeList})
    def get(self, request: Request) -> HttpResponse:
        """List nodes, by id."""
        wanted = self.query(wire.NodeQuery)
        filters = Filters(wanted.pool_id, wanted.state)
        caller = self.caller(wanted.tenant_id)
        page = queries.page(caller, filters, limit=wanted.limit, cursor=wanted.cursor)
        return self.answer(page)


class NodeView(ApiView):
    """One node."""

    @schema.describe(query=TenantQuery, answers={200: wire.Node})
    def get(self, request: Request, node_id: str) -> HttpResponse:
        """Get a node, with devices, resources and conditions."""
        shown = queries.get(self.caller(self.query(TenantQuery).tenant_id), node_id)
        return self.answer(shown, version=shown.version, live=True)  # liveness, bookings


class _Preview(Protocol):
    def __call__(self, caller: Caller, *, node_id: str) -> wire.NodeOperation: ...


class _Apply(Protocol):
    def __call__(
        self, caller: Caller, *, node_id: str, if_match: frozenset[int] | None
    ) -> wire.NodeOperation: ...


class _OperationView(ApiView):
    """Something an operator does to a node, or would do."""

    def operate(self, node_id: str, preview: _Preview, apply: _Apply) -> HttpResponse:
        """Show the effect, or have it, as the body says."""
        wanted = self.body(wire.NodeVerb)
        caller = self.caller(wanted.tenant_id)
        if wanted.preview:
            return self.answer(preview(caller, node_id=node_id))
        done = apply(caller, node_id=node_id, if_match=self.if_match())
        return self.answer(done, version=done.node.version)


class CordonView(_OperationView):
    """No new placements."""

    @schema.describe(body=wire.NodeVerb, answers={200: wire.NodeOperation}, if_match=True)
    def post(self, request: Request, node_id: str) -> HttpResponse:
        """Cordon a node: what is there stays until it ends."""
        return self.operate(node_id, cordon.preview, cordon.apply)


class UncordonView(_OperationView):
    """New placements again."""

    @schema.describe(body=wire.NodeVerb, answers={200: wire.NodeOperation}, if_match=True)
    def post(self, request: Request, node_id: str) -> HttpResponse:
        """End a node's cordon."""
        return self.operate(node_id, cordon.preview, cordon.end)
