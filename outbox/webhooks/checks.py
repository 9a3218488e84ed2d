"""Self-checks of webhooks (C39). That events reach the queue of deliveries is ``outbox.lag``'s."""

from datetime import timedelta

from bettercompute import findings
from bettercompute.findings import Check, Finding
from bettercompute.states import EndpointState
from outbox.models import WebhookEndpoint
from outbox.webhooks import former, vault
from outbox.webhooks.deliveries import DELIVERIES

OVERDUE_MAX = timedelta(minutes=1)
FAILING_MAX = timedelta(hours=1)
SHOWN_MAX = 5


@findings.check("webhooks.overdue")
def overdue() -> list[Finding]:
    """What is due to an endpoint that answers is sent within a minute (A6)."""
    row = DELIVERIES.one("overdue")
    assert row is not None
    count, age = row
    if age <= OVERDUE_MAX:
        return []
    return [
        Finding(
            "webhooks.overdue",
            f"{count} deliveries to webhooks are due, the oldest for {age}.",
            "See that workers run and what their logs say; if they are at their limit, start one"
            " more.",
        )
    ]


@findings.check("webhooks.failing")
def failing() -> list[Finding]:
    """No endpoint has refused everything for an hour (A6)."""
    rows = DELIVERIES.all("failing", age=FAILING_MAX, limit=SHOWN_MAX)
    return [
        Finding(
            "webhooks.failing",
            f"{endpoint_id} of {tenant or 'the platform'} has taken nothing for {age}.",
            "Tell who owns it; it is disabled after three days. Its register in the admin shows"
            " what came back.",
        )
        for endpoint_id, tenant, age in rows
    ]


@findings.check("webhooks.secrets")
def secrets() -> list[Finding]:
    """The secrets of every endpoint can be read, so that what it is sent is signed."""
    stored = WebhookEndpoint.objects.exclude(state=EndpointState.DELETED)
    columns = ("id", "secret", "former_secrets", "former_until")
    unreadable = [row.pk for row in stored.only(*columns).order_by("id") if not _reads(row)]
    if not unreadable:
        return []
    named = ", ".join(unreadable[:SHOWN_MAX]) + (" …" if len(unreadable) > SHOWN_MAX else "")
    return [
        Finding(
            "webhooks.secrets",
            f"The secrets of {len(unreadable)} webhooks cannot be read: {named}.",
            "Put the key that sealed them back into BETTERCOMPUTE_WEBHOOK_KEYS (or restore"
            " BETTERCOMPUTE_SECRET_KEY), or have their owners rotate them with expirePrevious.",
        )
    ]


def _reads(row: WebhookEndpoint) -> bool:
    try:
        for sealed in (row.secret, *(each.sealed for each in former.of(row))):
            vault.unseal(sealed)
    except vault.Unreadable:
        return False
    return True


ALL: tuple[Check, ...] = (overdue, failing, secrets)
