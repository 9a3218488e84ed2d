"""Reads of webhooks: as answered, and in pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bettercompute import clock, errors
from bettercompute.iam import access
from bettercompute.iam.callers import Caller
from bettercompute.states import EndpointState
from bettercompute.web import pagination
from bettercompute.wire import webhooks as wire
from outbox.models import DeliveryStatus, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from outbox.webhooks import endpoints, former, vault

WEBHOOKS_CURSOR = "webhooks"
DELIVERIES_CURSOR = "webhook-deliveries"
TRIES_SHOWN_MAX = 50

_NOTICES = {
    endpoints.GONE: "The receiver answered that it is gone for good (410), so it was disabled.",
    endpoints.FAILING: "It took nothing for three days, so it was disabled.",
    endpoints.DESERTED: "Its owner has left, so it was disabled. Whoever enables it owns it.",
}


@dataclass(frozen=True, slots=True)
class Filters:
    """Which deliveries of an endpoint a list shows."""

    states: Sequence[str] = ()
    event_id: str | None = None
    event_type: str | None = None


def page(
    caller: Caller, *, platform: bool = False, limit: int, cursor: str | None = None
) -> wire.WebhookList:
    """The tenant's endpoints, or the platform's, newest first.

    Raises:
        errors.AccessDenied: the platform's are not the caller's business.
        errors.InvalidInput: the cursor is not one of this list.
    """
    if platform:
        access.require_operator(caller)
    found = endpoints.visible(caller).filter(tenant_id=None if platform else caller.tenant_id)
    read = pagination.newest(WEBHOOKS_CURSOR, found, limit=limit, cursor=cursor)
    items = [answered(row) for row in read.items]
    return wire.WebhookList(items=items, next_cursor=read.next_cursor)


def answered(row: WebhookEndpoint) -> wire.Webhook:
    """An endpoint on the wire, without its secret."""
    return wire.Webhook.model_validate(_fields(row))


def with_secret(row: WebhookEndpoint, secret: str) -> wire.WebhookWithSecret:
    """The same with the secret that nobody is shown again."""
    return wire.WebhookWithSecret.model_validate({**_fields(row), "secret": secret})


def deliveries_page(
    caller: Caller,
    endpoint_id: str,
    filters: Filters,
    *,
    limit: int,
    cursor: str | None = None,
) -> wire.DeliveryList:
    """What an endpoint was sent and is to be sent, newest event first.

    Raises:
        errors.InvalidInput: the cursor is not one of this list.
        errors.NotFound, errors.AccessDenied: as for ``endpoints.get``.
    """
    behind = {}
    if cursor is not None:
        (behind["pk__lt"],) = pagination.decode(DELIVERIES_CURSOR, cursor, str)
    endpoint = endpoints.get(caller, endpoint_id)
    found = WebhookDelivery.objects.filter(endpoint=endpoint, **behind)
    if filters.states:
        found = found.filter(status__in=filters.states)
    if filters.event_id is not None:
        found = found.filter(event_id=filters.event_id)
    if filters.event_type is not None:
        found = found.filter(event_type=filters.event_type)
    rows = list(found.order_by("-id")[: limit + 1])
    items = [wire.Delivery.model_validate(_delivery(row, endpoint)) for row in rows[:limit]]
    more = len(rows) > limit
    return wire.DeliveryList(
        items=items,
        next_cursor=pagination.encode(DELIVERIES_CURSOR, items[-1].id) if more else None,
    )


def delivery(endpoint: WebhookEndpoint, delivery_id: str) -> wire.DeliveryWithAttempts:
    """One delivery with the bytes that are sent, and its latest attempts.

    Raises:
        errors.NotFound: the endpoint has no such delivery.
    """
    row = WebhookDelivery.objects.filter(endpoint=endpoint, pk=delivery_id).first()
    if row is None:
        raise errors.NotFound(
            f"There is no delivery {delivery_id[:100]} of {endpoint.pk}, or it is too old."
        )
    latest = WebhookAttempt.objects.filter(delivery=row).order_by("-number")[:TRIES_SHOWN_MAX]
    tries = [_attempt(each) for each in reversed(latest)]
    return wire.DeliveryWithAttempts.model_validate(
        {**_delivery(row, endpoint), "body": row.body, "tries": tries}
    )


def _fields(row: WebhookEndpoint) -> dict[str, Any]:
    ends = [clock.to_ms(each.until) for each in former.of(row)]
    return {
        "id": row.pk,
        "tenant_id": row.tenant_id,
        "owner_identity_id": row.owner_id,
        "url": row.url,
        "description": row.description,
        "event_types": row.event_types,
        "subject": row.subject,
        "state": EndpointState(row.state),
        "disabled_reason": row.disabled_reason or None,
        "disabled_at": _ms(row.disabled_at),
        "notice": _notice(row),
        "failing_since": _ms(row.failing_since),
        "last_success_at": _ms(row.last_success_at),
        "previous_secret_until": max(ends, default=None),
        "former_secrets": [{"until": end} for end in ends],
        "version": row.version,
        "created_at": clock.to_ms(row.created_at),
    }


def _notice(row: WebhookEndpoint) -> str | None:
    """What its owner should know; the gravest thing alone."""
    if row.state == EndpointState.DISABLED:
        return _NOTICES.get(row.disabled_reason)
    try:
        vault.unseal(row.secret)
    except vault.Unreadable:
        return "Its secret cannot be read any more, so nothing can be sent: rotate the secret."
    if row.failing_since is not None:
        return (
            f"The last {row.failures} attempts failed. After three days without any success it is"
            " disabled."
        )
    return None


def _delivery(row: WebhookDelivery, endpoint: WebhookEndpoint) -> dict[str, Any]:
    waits = row.status == DeliveryStatus.PENDING and endpoint.state == EndpointState.ENABLED
    return {
        "id": row.pk,
        "webhook_id": row.endpoint_id,
        "event_id": row.event_id,
        "event_type": row.event_type,
        "subject": row.subject,
        "event_time": clock.to_ms(row.event_time),
        "test": row.test,
        "state": row.status,
        "attempts": row.attempts,
        "next_at": clock.to_ms(row.next_at) if waits else None,
        "created_at": clock.to_ms(row.created_at),
        "finished_at": _ms(row.finished_at),
    }


def _attempt(row: WebhookAttempt) -> wire.Attempt:
    return wire.Attempt(
        number=row.number,
        started_at=clock.to_ms(row.started_at),
        request_headers=row.request_headers,
        response_status=row.response_status,
        response_head=row.response_head,
        latency_ms=row.latency_ms,
        error=row.error,
        retry_at=_ms(row.retry_at),
    )


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else clock.to_ms(instant)
