"""From an event to a receiver's door, and what is written down of it (A6)."""

import pytest
from django.db import connection, transaction
from standardwebhooks import Webhook

from outbox import dispatch, events
from outbox.models import WebhookAttempt, WebhookDelivery
from outbox.webhooks import courier, endpoints, sink
from tests.support import cast, horizon
from tests.support.receivers import receiver

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A6")]


@pytest.fixture
def door():
    with receiver() as running:
        yield running


def endpoint(door, name="alice", **changes):
    platform = changes.pop("platform", False)
    draft = endpoints.Draft(changes.pop("url", door.url), **changes)
    return endpoints.create(cast.caller(name), draft, platform=platform)


def publish(tenant="acme", kind="pool.created", subject="pool/pool_a"):
    data = {"poolId": "pool_a"} if kind.startswith("pool") else {"tokenId": "tok_a"}
    events.publish(kind, tenant_id=cast.tenant(tenant).pk, subject=subject, data=data)
    horizon.let_writers_elsewhere_end()


def dispatched(queue=sink.QUEUE):
    return dispatch.drain("webhooks", queue, fence=transaction.atomic)


def at_the_receivers_time(clock):
    """A receiver judges by its own clock: the machine's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        clock.set(cursor.fetchone()[0])


def send():
    """What is due now, by a worker."""
    return courier.Courier().catch_up()


def test_an_event_reaches_the_receiver_signed_as_standard_webhooks_has_it(clock, door):
    at_the_receivers_time(clock)
    made, secret = endpoint(door)
    publish()
    dispatched()
    assert send() == 1
    (message,) = door.messages
    verified = Webhook(secret).verify(message.body, dict(message.headers))
    assert verified == message.event
    assert verified["type"] == "pool.created"
    assert verified["tenantId"] == cast.tenant().pk
    assert set(verified) == {"id", "type", "tenantId", "subject", "data", "time"}
    assert message.id == verified["id"]
    row = WebhookDelivery.objects.get()
    assert (row.status, row.attempts, row.body.encode()) == ("delivered", 1, message.body)
    attempt = WebhookAttempt.objects.get()
    assert (attempt.response_status, attempt.response_head, attempt.error) == (200, "thanks", "")
    assert "webhook-signature" not in {name.lower() for name in attempt.request_headers}
    made.refresh_from_db()
    assert (made.lane, made.failing_since) == ("quick", None)
    assert send() == 0
