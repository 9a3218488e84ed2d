"""Webhooks in tests: endpoints through the use case, events, and a worker's turn."""

from typing import Any

from django.db import connection, transaction

from bettercompute import clock, ids
from outbox import dispatch, events
from outbox.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from outbox.webhooks import courier, endpoints, sink
from tests.conftest import SimulatedClock
from tests.support import cast, horizon
from tests.support.receivers import Receiver


def endpoint(
    door: Receiver | str, name: str = "alice", *, platform: bool = False, **changes: Any
) -> tuple[WebhookEndpoint, str]:
    """One of the cast's, and its secret."""
    url = door if isinstance(door, str) else door.url
    draft = endpoints.Draft(url, **changes)
    return endpoints.create(cast.caller(name), draft, platform=platform)


def sent(to: WebhookEndpoint) -> WebhookDelivery:
    """A delivery as it looks after it was refused once, in one transaction with the test."""
    event_id = ids.new("evt")
    made = WebhookDelivery.objects.create(
        id=f"whd_{event_id.removeprefix('evt_')}{to.pk[-10:]}",
        endpoint=to,
        event_id=event_id,
        event_type="pool.created",
        subject="pool/pool_a",
        body="{}",
        event_time=clock.now(),
        attempts=1,
    )
    WebhookAttempt.objects.create(
        delivery=made, number=1, started_at=clock.now(), response_status=500, latency_ms=12
    )
    return made


def publish(tenant: str = "acme", kind: str = "pool.created", subject: str = "pool/pool_a") -> None:
    """An event of a tenant, which dispatch can read."""
    of_quota = {"resource": "gpuMilli", "max": 8_000}
    data = of_quota if kind.startswith("quota") else {"poolId": "pool_a"}
    events.publish(kind, tenant_id=cast.tenant(tenant).pk, subject=subject, data=data)
    horizon.let_writers_elsewhere_end()


def dispatched() -> int:
    """Everything published, written down for its endpoints."""
    return dispatch.drain("webhooks", sink.QUEUE, fence=transaction.atomic)


def send() -> int:
    """One look of a worker: what is due now; answers how many."""
    return courier.Courier().catch_up()


def send_until_quiet() -> None:
    """As many looks as find something."""
    while send():
        pass


def at_the_receivers_time(clock: SimulatedClock) -> None:
    """A receiver judges by its own clock: the machine's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        clock.set(cursor.fetchone()[0])
