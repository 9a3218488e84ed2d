"""REST of webhooks (A4, A6)."""

from django.http import HttpResponse
from rest_framework.request import Request

from bettercompute import clock
from bettercompute.errors import Conflict, InvalidState
from bettercompute.web import schema
from bettercompute.web.views import ApiView
from bettercompute.wire import webhooks as wire
from bettercompute.wire.base import TenantBody, TenantQuery
from outbox.webhooks import endpoints, queries, resending
from outbox.webhooks.endpoints import Draft
from outbox.webhooks.queries import Filters


class WebhooksView(ApiView):
    """The webhooks of a tenant, or of the platform."""

    @schema.describe(query=wire.WebhookQuery, answers={200: wire.WebhookList})
    def get(self, request: Request) -> HttpResponse:
        """List webhooks, newest first."""
        wanted = self.query(wire.WebhookQuery)
        page = queries.page(
            self.caller(wanted.tenant_id),
            platform=wanted.scope == "platform",
            limit=wanted.limit,
            cursor=wanted.cursor,
        )
        return self.answer(page)

    @schema.describe(
        body=wire.WebhookCreate,
        answers={201: wire.WebhookWithSecret},
        raises=[endpoints.TooManyWebhooks],
    )
    def post(self, request: Request) -> HttpResponse:
        """Make a webhook; the secret it signs with is in this answer and nowhere else."""
        wanted = self.body(wire.WebhookCreate)
        made, secret = endpoints.create(
            self.caller(wanted.tenant_id),
            Draft(wanted.url, wanted.description, wanted.event_types, wanted.subject),
            platform=wanted.scope == "platform",
            enabled=wanted.enabled,
        )
        shown = queries.with_secret(made, secret)
        answered = self.answer(shown, status=201, version=shown.version)
        answered["Location"] = f"/api/v1/webhooks/{shown.id}"
        return answered


class WebhookView(ApiView):
    """One webhook."""

    @schema.describe(query=TenantQuery, answers={200: wire.Webhook})
    def get(self, request: Request, webhook_id: str) -> HttpResponse:
        """Get it, with what is wrong with it if anything is."""
        found = endpoints.get(self.caller(self.query(TenantQuery).tenant_id), webhook_id)
        shown = queries.answered(found)
        return self.answer(shown, version=shown.version, live=True)

    @schema.describe(body=wire.WebhookUpdate, answers={200: wire.Webhook}, if_match=True)
    def patch(self, request: Request, webhook_id: str) -> HttpResponse:
        """Change what is given; the rest stays. Enabling it sends what waited."""
        wanted = self.body(wire.WebhookUpdate)
        changes = wanted.model_dump(exclude_unset=True, exclude={"tenant_id", "enabled"})
        changed = endpoints.update(
            self.caller(wanted.tenant_id),
            webhook_id,
            changes,
            enabled=wanted.enabled if "enabled" in wanted.model_fields_set else None,
            if_match=self.if_match(),
        )
        shown = queries.answered(changed)
        return self.answer(shown, version=shown.version)

    @schema.describe(query=TenantQuery, answers={204: None}, if_match=True)
    def delete(self, request: Request, webhook_id: str) -> HttpResponse:
        """Delete it, with what it was sent."""
        caller = self.caller(self.query(TenantQuery).tenant_id)
        endpoints.delete(caller, webhook_id, if_match=self.if_match())
        return HttpResponse(status=204)


class WebhookRotateView(ApiView):
    """Its secret."""

    @schema.describe(
        body=wire.SecretRotation,
        answers={200: wire.WebhookWithSecret},
        if_match=True,
        raises=[InvalidState],
    )
    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        """Give it a new secret, in this answer and nowhere else; the old one signs for a day.

        So does each that was replaced within the last day, whatever came after it. Where three of
        them sign still it answers `INVALID_STATE`, with `until` when the first of them ends.
        """
        wanted = self.body(wire.SecretRotation)
        rotated, secret = endpoints.rotate_secret(
            self.caller(wanted.tenant_id),
            webhook_id,
            expire_previous=wanted.expire_previous,
            if_match=self.if_match(),
        )
        shown = queries.with_secret(rotated, secret)
        return self.answer(shown, version=shown.version)


class WebhookTestView(ApiView):
    """Trying it."""

    @schema.describe(body=TenantBody, answers={200: wire.DeliveryWithAttempts}, raises=[Conflict])
    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        """Send it a test event now, and answer what came of it."""
        caller = self.caller(self.body(TenantBody).tenant_id)
        return self.answer(resending.test(caller, webhook_id))


class DeliveriesView(ApiView):
    """What it was sent."""

    @schema.describe(query=wire.DeliveryQuery, answers={200: wire.DeliveryList})
    def get(self, request: Request, webhook_id: str) -> HttpResponse:
        """List what it was sent and is to be sent, newest first."""
        wanted = self.query(wire.DeliveryQuery)
        page = queries.deliveries_page(
            self.caller(wanted.tenant_id),
            webhook_id,
            Filters(wanted.state, wanted.event_id, wanted.event_type),
            limit=wanted.limit,
            cursor=wanted.cursor,
        )
        return self.answer(page)


class DeliveryView(ApiView):
    """One delivery."""

    @schema.describe(query=TenantQuery, answers={200: wire.DeliveryWithAttempts})
    def get(self, request: Request, webhook_id: str, delivery_id: str) -> HttpResponse:
        """Get it, with the bytes that are sent and what came of each attempt."""
        endpoint = endpoints.get(self.caller(self.query(TenantQuery).tenant_id), webhook_id)
        return self.answer(queries.delivery(endpoint, delivery_id))


class RedeliverView(ApiView):
    """One delivery again."""

    @schema.describe(
        body=TenantBody, answers={200: wire.DeliveryWithAttempts}, raises=[InvalidState]
    )
    def post(self, request: Request, webhook_id: str, delivery_id: str) -> HttpResponse:
        """Send it again, with the same id and the same bytes."""
        caller = self.caller(self.body(TenantBody).tenant_id)
        return self.answer(resending.redeliver(caller, webhook_id, delivery_id))


class RedeliverRangeView(ApiView):
    """What happened in a span again."""

    @schema.describe(
        body=wire.RedeliverRange, answers={200: wire.Redelivered}, raises=[InvalidState]
    )
    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        """Send again what happened in a span: what failed, or all of it; 1,000 at most."""
        wanted = self.body(wire.RedeliverRange)
        done = resending.redeliver_range(
            self.caller(wanted.tenant_id),
            webhook_id,
            since=clock.from_ms(wanted.since),
            until=clock.from_ms(wanted.until),
            everything=wanted.which == "all",
            cursor=wanted.cursor,
        )
        return self.answer(done)
