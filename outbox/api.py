"""REST of events: a list, one, their stream, and the catalogue of their types (A4, A7)."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request

from bettercompute import clock
from bettercompute.errors import InvalidInput, RateLimited
from bettercompute.iam import callers, standing
from bettercompute.iam.callers import Caller
from bettercompute.iam.standing import Credential
from bettercompute.web import schema
from bettercompute.web.rendering import EventStreamNegotiation
from bettercompute.web.views import ApiView
from bettercompute.wire import events as wire
from bettercompute.wire.base import TenantQuery
from outbox import filters, positions, queries, rights, schemas
from outbox.filters import Filters
from outbox.streaming import frames, opening


class _EventsView(ApiView):
    """Events of a tenant, or of the platform."""

    @property
    def account(self) -> Any:
        """The account that authentication found: a row of iam, whose class is iam's own."""
        return self.request.user

    def reader(self, wanted: wire.EventFilter | wire.EventScope) -> Caller:
        """Who reads: for a tenant, or as an operator for the platform."""
        if wanted.scope == "platform":
            return callers.for_platform(self.account)
        return self.caller(wanted.tenant_id)


class EventsView(_EventsView):
    """What happened."""

    @schema.describe(query=wire.EventQuery, answers={200: wire.EventList}, tag="events")
    def get(self, request: Request) -> HttpResponse:
        """List events, the newest first, and say where a stream goes on behind them."""
        wanted = self.query(wire.EventQuery)
        asked = Filters(
            types=filters.types(wanted.types),
            tenant_id=rights.require(self.reader(wanted), platform=wanted.scope == "platform"),
            subject=wanted.subject,
            start=None if wanted.from_ is None else clock.from_ms(wanted.from_),
            end=None if wanted.to is None else clock.from_ms(wanted.to),
        )
        return self.answer(queries.page(asked, limit=wanted.limit, cursor=wanted.cursor))


class EventView(_EventsView):
    """One event."""

    @schema.describe(query=wire.EventScope, answers={200: wire.Event}, tag="events")
    def get(self, request: Request, event_id: str) -> HttpResponse:
        """Get it, as it was sent."""
        wanted = self.query(wire.EventScope)
        tenant_id = rights.require(self.reader(wanted), platform=wanted.scope == "platform")
        return self.answer(queries.as_wire(queries.get(event_id, tenant_id=tenant_id)))


class EventStreamView(_EventsView):
    """What happens, as it happens."""

    content_negotiation_class = EventStreamNegotiation

    @schema.describe(
        query=wire.EventStreamQuery,
        answers={(200, frames.MEDIA_TYPE): OpenApiTypes.STR},
        raises=(RateLimited,),
        tag="events",
    )
    def get(self, request: Request) -> HttpResponse:
        """Stream events as server-sent events; with an id, exactly behind it."""
        wanted = self.query(wire.EventStreamQuery)
        caller = self.reader(wanted)
        asked = Filters(
            types=filters.types(wanted.types),
            tenant_id=rights.require(caller, platform=wanted.scope == "platform"),
            subject=wanted.subject,
        )
        credential = self._credential(caller.tenant_id)
        return opening.begin(credential, asked, last=self._last_seen(wanted.after))

    def _last_seen(self, after: str | None) -> str | None:
        """The id that the client has come to: what a browser sends again goes before the query."""
        header = self.request.META.get("HTTP_LAST_EVENT_ID", "")
        name, given = ("Last-Event-ID", header) if header else ("after", after)
        try:
            return given and str(positions.parse(given))
        except InvalidInput as error:
            raise InvalidInput.at(name, "is no id that a stream gave: <txid>-<seq>") from error

    def _credential(self, tenant_id: str) -> Credential:
        if self.identity.token_id is not None:
            return standing.of_token(self.identity.account_id, tenant_id, self.identity.token_id)
        key = self.request._request.session.session_key
        assert key is not None, "signed in by a session"
        return standing.of_session(self.account, tenant_id, key)


class CatalogView(ApiView):
    """Every type of event."""

    @schema.describe(
        query=TenantQuery,
        answers={200: wire.EventCatalog},
        tag="events",
        operation="events.catalog.list",
    )
    def get(self, request: Request) -> HttpResponse:
        """List the types, each with its meaning, the JSON Schema of its events, and an example."""
        _check_tenant(self)
        return self.answer(schemas.all_types())


class CatalogTypeView(ApiView):
    """One type of event."""

    @schema.describe(query=TenantQuery, answers={200: wire.EventType}, tag="events")
    def get(self, request: Request, type_name: str) -> HttpResponse:
        """Get its meaning, the JSON Schema of its events, and an example."""
        _check_tenant(self)
        return self.answer(schemas.named(type_name))


def _check_tenant(view: ApiView) -> None:
    """The catalogue is everybody's; a tenant that is named is one's own, as on every route."""
    tenant_id = view.query(TenantQuery).tenant_id
    if tenant_id is not None:
        view.caller(tenant_id)
