"""Deliveries that a person asks for: a test, one again, or what happened in a span again."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import transaction

from bettercompute import clock, errors, ids
from bettercompute.iam.callers import Caller
from bettercompute.states import EndpointState
from bettercompute.web import pagination
from bettercompute.wire import webhooks as wire
from bettercompute.wire.events import Event
from outbox.models import WebhookEndpoint
from outbox.webhooks import courier, deliveries, endpoints, queries, vault
from outbox.webhooks.deliveries import DELIVERIES, Claim
from outbox.webhooks.sending import Attempt

CURSOR = "redelivered"
RANGE_MAX = 1_000  # deliveries of one request
TESTS_MAX = 2  # of one process at once: each holds one of its threads for seconds
BUSY_SECONDS = 5

_places = threading.BoundedSemaphore(TESTS_MAX)


def test(caller: Caller, endpoint_id: str) -> wire.DeliveryWithAttempts:
    """Send the endpoint a test event now, also while it is disabled, and answer what came of it.

    It is sent once: the same bytes and signatures as any, by the same sender.

    Raises:
        errors.NotFound, errors.AccessDenied: as for ``endpoints.get``.
        errors.Conflict: another test of it is under way.
        errors.Unavailable: too many tests are.
    """
    endpoint = endpoints.get(caller, endpoint_id, action=endpoints.MANAGE)
    with _place():
        with transaction.atomic():
            claim = _claim(endpoint)
            if claim is None:
                raise errors.Conflict(
                    "A test of this webhook is under way; wait for what comes of it."
                )
            endpoints.record("test", endpoint.pk, tenant_id=endpoint.tenant_id)
        deliveries.record([deliveries.result(claim, _send(claim))])
    return queries.delivery(endpoint, claim.id)


def redeliver(caller: Caller, endpoint_id: str, delivery_id: str) -> wire.DeliveryWithAttempts:
    """Have one sent again, now, with a schedule of its own.

    Raises:
        errors.NotFound, errors.AccessDenied: as for ``endpoints.get``; or no such delivery.
        errors.InvalidState: the webhook is disabled, or it is being sent at this moment.
    """
    endpoint = _enabled(caller, endpoint_id)
    queries.delivery(endpoint, delivery_id)
    with transaction.atomic():
        if not deliveries.send_again(endpoint_id, delivery_id):
            raise errors.InvalidState("It is being sent at this moment.")
        tenant_id = endpoint.tenant_id
        endpoints.record("redeliver", endpoint_id, tenant_id=tenant_id, delivery=delivery_id)
    return queries.delivery(endpoint, delivery_id)


def redeliver_range(
    caller: Caller,
    endpoint_id: str,
    *,
    since: datetime,
    until: datetime,
    everything: bool,
    cursor: str | None = None,
) -> wire.Redelivered:
    """Have sent again what happened in ``[since, until)``, the oldest first, a bounded number.

    Raises:
        errors.NotFound, errors.AccessDenied, errors.InvalidState: as for ``redeliver``.
        errors.InvalidInput: the span ends before it begins, or the cursor is none of this.
    """
    behind = None if cursor is None else pagination.decode(CURSOR, cursor, str)[0]
    endpoint = _enabled(caller, endpoint_id)
    if until <= since:
        raise errors.InvalidInput.at("to", "must be after `from`")
    with transaction.atomic(durable=True):
        row = DELIVERIES.one(
            "again_range",
            endpoint_id=endpoint.pk,
            since=since,
            until=until,
            all=everything,
            behind=behind,
            limit=RANGE_MAX,
        )
        assert row is not None
        count, last = row
        endpoints.record("redeliver", endpoint.pk, tenant_id=endpoint.tenant_id, count=count)
    more = count == RANGE_MAX
    return wire.Redelivered(
        count=count, more=more, next_cursor=pagination.encode(CURSOR, last) if more else None
    )


def _enabled(caller: Caller, endpoint_id: str) -> WebhookEndpoint:
    endpoint = endpoints.get(caller, endpoint_id, action=endpoints.MANAGE)
    if endpoint.state != EndpointState.ENABLED:
        raise errors.InvalidState("This webhook is disabled; enable it first.")
    return endpoint


def _claim(endpoint: WebhookEndpoint) -> Claim | None:
    event = Event(
        id=ids.new("evt"),
        type="webhook.test",
        tenant_id=endpoint.tenant_id or "",
        subject=f"webhook/{endpoint.pk}",
        data={"webhookId": endpoint.pk},
        time=clock.now_ms(),
    )
    return deliveries.claim_test(endpoint.pk, event=event)


def _send(claim: Claim) -> Attempt:
    try:
        request = claim.request(now_ms=clock.now_ms())
    except vault.Unreadable as error:
        return deliveries.unreadable_secret(error)
    return courier.send_now(request)


@contextmanager
def _place() -> Iterator[None]:
    if not _places.acquire(blocking=False):
        raise errors.Unavailable(
            "Other tests of webhooks are under way; try again in some seconds.",
            retryAfterSeconds=BUSY_SECONDS,
        )
    try:
        yield
    finally:
        _places.release()
