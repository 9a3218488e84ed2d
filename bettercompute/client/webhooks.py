"""Webhooks: receivers that are sent events as they happen, and what they were sent (A6)."""

from collections.abc import Sequence

from bettercompute.client import accounts, calls, flows, paging
from bettercompute.client.flows import Api, Flow, Pages
from bettercompute.wire.base import TenantBody
from bettercompute.wire.webhooks import (
    Delivery,
    DeliveryList,
    DeliveryState,
    DeliveryWithAttempts,
    Redelivered,
    RedeliverRange,
    Scope,
    SecretRotation,
    Webhook,
    WebhookCreate,
    WebhookList,
    WebhookWithSecret,
)

TEST_SECONDS = 15.0  # as long as the server waits for a receiver


def create(
    api: Api,
    *,
    url: str,
    description: str = "",
    event_types: Sequence[str] = (),
    subject: str = "",
    enabled: bool = True,
    scope: Scope = "tenant",
) -> Flow[WebhookWithSecret]:
    """Have ``url`` sent the events of these types (none: all); ``reservation.*`` are all of a kind.

    Its ``secret`` is in this answer and nowhere else. One whose answer was lost is listed, and can
    be given another. ``scope="platform"`` is the operators', for the events of all tenants.
    """
    body = WebhookCreate(
        tenant_id=(yield from accounts.tenant_id(api)),
        scope=scope,
        url=url,
        description=description,
        event_types=list(event_types),
        subject=subject,
        enabled=enabled,
    )
    call = calls.post("/webhooks", body, WebhookWithSecret, repeatable=False)
    return (yield from flows.exchange(api, call))


def pages(api: Api, *, scope: Scope = "tenant", page_size: int = 50) -> Pages[Webhook]:
    """The tenant's webhooks, newest first; as an operator also the platform's."""
    call = calls.get("/webhooks", WebhookList, scope=scope, limit=str(page_size))
    return paging.pages(api, call)


def get(api: Api, webhook_id: str) -> Flow[Webhook]:
    """One webhook, with what is wrong with it if anything is."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    return (
        yield from flows.exchange(api, calls.get(_path(webhook_id), Webhook, tenantId=tenant_id))
    )


def update(
    api: Api,
    webhook_id: str,
    *,
    url: str | None = None,
    description: str | None = None,
    event_types: Sequence[str] | None = None,
    subject: str | None = None,
    enabled: bool | None = None,
    version: int | None = None,
) -> Flow[Webhook]:
    """Change what is given; the rest stays. With ``version``, only if it is the current one."""
    given = {
        "url": url,
        "description": description,
        "eventTypes": None if event_types is None else list(event_types),
        "subject": subject,
        "enabled": enabled,
    }
    body = {name: value for name, value in given.items() if value is not None}
    body["tenantId"] = yield from accounts.tenant_id(api)
    call = calls.patch(_path(webhook_id), body, Webhook, headers=calls.if_match(version))
    return (yield from flows.exchange(api, call))


def delete(api: Api, webhook_id: str, *, version: int | None = None) -> Flow[None]:
    """Send it nothing any more, and forget what it was sent."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    call = calls.delete(_path(webhook_id), headers=calls.if_match(version), tenantId=tenant_id)
    return (yield from flows.exchange(api, call))


def rotate_secret(
    api: Api, webhook_id: str, *, expire_previous: bool = False, version: int | None = None
) -> Flow[WebhookWithSecret]:
    """Give it a new secret; the one before signs for a day more, as each does that was replaced.

    With ``expire_previous`` none of them signs any more. The ``secret`` is in this answer and
    nowhere else. Where the answer was lost, rotate again: it ends none of those that sign still.
    """
    body = SecretRotation(
        tenant_id=(yield from accounts.tenant_id(api)), expire_previous=expire_previous
    )
    call = calls.post(
        f"{_path(webhook_id)}/rotate-secret",
        body,
        WebhookWithSecret,
        repeatable=False,
        headers=calls.if_match(version),
    )
    return (yield from flows.exchange(api, call))


def test(api: Api, webhook_id: str) -> Flow[DeliveryWithAttempts]:
    """Send it a test event now, and answer what came of it."""
    call = calls.post(
        f"{_path(webhook_id)}/test",
        TenantBody(tenant_id=(yield from accounts.tenant_id(api))),
        DeliveryWithAttempts,
        repeatable=False,
        holds_seconds=TEST_SECONDS,
    )
    return (yield from flows.exchange(api, call))


def delivery_pages(
    api: Api,
    webhook_id: str,
    *,
    states: Sequence[DeliveryState] = (),
    event_id: str | None = None,
    event_type: str | None = None,
    page_size: int = 50,
) -> Pages[Delivery]:
    """What it was sent and is to be sent, newest first."""
    call = calls.get(
        f"{_path(webhook_id)}/deliveries",
        DeliveryList,
        eventId=event_id,
        eventType=event_type,
        limit=str(page_size),
    )
    return paging.pages(api, calls.with_query(call, [("state", state) for state in states]))


def delivery(api: Api, webhook_id: str, delivery_id: str) -> Flow[DeliveryWithAttempts]:
    """One of them, with the bytes that are sent and what came of each attempt."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    path = f"{_path(webhook_id)}/deliveries/{calls.segment(delivery_id)}"
    call = calls.get(path, DeliveryWithAttempts, tenantId=tenant_id)
    return (yield from flows.exchange(api, call))


def redeliver(api: Api, webhook_id: str, delivery_id: str) -> Flow[DeliveryWithAttempts]:
    """Send one again, with the same id and the same bytes."""
    call = calls.post(
        f"{_path(webhook_id)}/deliveries/{calls.segment(delivery_id)}/redeliver",
        TenantBody(tenant_id=(yield from accounts.tenant_id(api))),
        DeliveryWithAttempts,
        repeatable=False,
    )
    return (yield from flows.exchange(api, call))


def redeliver_range(
    api: Api,
    webhook_id: str,
    *,
    start_ms: int,
    end_ms: int,
    everything: bool = False,
    cursor: str | None = None,
) -> Flow[Redelivered]:
    """Send again what happened in ``[start_ms, end_ms)``: what failed, or all of it.

    At most a thousand in a call: with ``more``, call again with its ``next_cursor``.
    """
    # As the wire names them; "from" is no name in Python.
    body = RedeliverRange.model_validate(
        {
            "tenantId": (yield from accounts.tenant_id(api)),
            "from": start_ms,
            "to": end_ms,
            "which": "all" if everything else "failed",
            "cursor": cursor,
        }
    )
    path = f"{_path(webhook_id)}/redeliver"
    call = calls.post(path, body, Redelivered, repeatable=False)
    return (yield from flows.exchange(api, call))


def _path(webhook_id: str) -> str:
    return f"/webhooks/{calls.segment(webhook_id)}"
