"""Operators' registers of webhooks: endpoints, what each was sent, what came back."""

from collections.abc import Mapping
from typing import Any

from bettercompute import errors
from bettercompute.operators.operations import Effect, Operation, Outcome
from bettercompute.operators.registers import ReadOnlyAdmin, ReadOnlyTable, one_of
from bettercompute.states import EndpointState
from outbox.models import DeliveryStatus, Lane, WebhookAttempt, WebhookEndpoint
from outbox.webhooks import endpoints


def _disable_effect(account: Any, row: WebhookEndpoint) -> Effect:
    if row.state != EndpointState.ENABLED:
        raise errors.InvalidState(f"It is {row.state}.")
    waiting = row.deliveries.filter(status=DeliveryStatus.PENDING).count()
    return Effect(
        (
            "Nothing is sent to it until somebody who manages it enables it again.",
            "What happens meanwhile is not sent later; what waits now is, then.",
        ),
        ("Webhook", "URL", "Waiting"),
        ((row.pk, row.url, waiting),),
    )


def _disable(account: Any, row: WebhookEndpoint, values: Mapping[str, Any]) -> Outcome:
    endpoints.disable_by_operator(row.pk)
    return Outcome("it is sent nothing any more")


DISABLE = Operation("disable", "Disable", _disable_effect, _disable, harsh=True)


class WebhookEndpointAdmin(ReadOnlyAdmin):
    """Where tenants, or for the whole platform operators, want to be told of events."""

    list_display = ("id", "tenant", "url", "state", "failing_since", "failures", "lane")
    list_select_related = ("tenant",)
    list_filter = (one_of("state", EndpointState), one_of("lane", Lane))
    search_fields = ("id__exact", "tenant__slug__exact", "url__icontains")
    search_help_text = "Exact id, exact slug of a tenant, or a part of the URL"
    ordering = ("-id",)
    hidden = ("secret", "former_secrets")
    operations = (DISABLE,)


class Tries(ReadOnlyTable):
    """Each time that it was sent."""

    model = WebhookAttempt
    columns = ("number", "started_at", "response_status", "latency_ms", "error", "retry_at")
    ordering = ("-number",)


class WebhookDeliveryAdmin(ReadOnlyAdmin):
    """What endpoints are sent. They are many: found by endpoint, event or id, never counted."""

    list_display = ("id", "endpoint", "event_type", "status", "attempts", "next_at", "created_at")
    list_select_related = ("endpoint",)
    list_filter = (one_of("status", DeliveryStatus),)
    search_fields = ("id__exact", "endpoint__id__exact", "event_id__exact")
    search_help_text = "Exact id of the delivery, its webhook or its event"
    ordering = ("-created_at",)
    inlines = (Tries,)
    long = True


class WebhookAttemptAdmin(ReadOnlyAdmin):
    """What came back, each time that something was sent."""

    list_display = ("id", "delivery", "number", "started_at", "response_status", "error")
    search_fields = ("delivery__id__exact",)
    search_help_text = "Exact id of the delivery"
    ordering = ("-id",)
    long = True
