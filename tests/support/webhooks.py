"""Webhooks in tests: endpoints through the use case, events, and a worker's turn."""

from typing import Any

from django.db import transaction

from outbox import dispatch, events
from outbox.models import WebhookEndpoint
from outbox.webhooks import courier, endpoints, sink
from tests.support import cast, horizon
from tests.support.receivers import Receiver


def endpoint(
    door: Receiver | str, name: str = "alice", *, platform: bool = False, **changes: Any
) -> tuple[WebhookEndpoint, str]:
    """One of the cast's, and its secret."""
    url = door if isinstance(door, str) else door.url
    draft = endpoints.Draft(url, **changes)
    return endpoints.create(cast.caller(name), draft, platform=platform)


def publish(tenant: str = "acme", kind: str = "pool.created", subject: str = "pool/pool_a") -> None:
    """An event of a tenant, which dispatch can read."""
    data = {"tokenId": "tok_a"} if kind.startswith("token") else {"poolId": "pool_a"}
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
