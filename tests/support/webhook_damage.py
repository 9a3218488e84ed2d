"""One way to break each promise of webhooks' self-checks."""

from datetime import timedelta

import pytest

from bettercompute import clock
from outbox.models import WebhookDelivery, WebhookEndpoint
from outbox.webhooks import endpoints
from tests.support import cast

BEFORE = timedelta(hours=2)


def endpoint() -> WebhookEndpoint:
    """One that nothing is wrong with."""
    draft = endpoints.Draft("https://hooks.example.com/gpus")
    return endpoints.create(cast.caller("olga"), draft, platform=True)[0]


def nobody_sends(world: object, patch: pytest.MonkeyPatch) -> None:
    WebhookDelivery.objects.create(
        id="whd_late",
        endpoint=endpoint(),
        event_id="evt_late",
        event_type="pool.created",
        subject="pool/pool_a",
        body="{}",
        event_time=clock.now(),
        next_at=clock.now() - BEFORE,
    )


def nothing_is_taken(world: object, patch: pytest.MonkeyPatch) -> None:
    found = WebhookEndpoint.objects.filter(pk=endpoint().pk)
    found.update(failing_since=clock.now() - BEFORE, failures=9, lane="failing")


def the_key_is_lost(world: object, patch: pytest.MonkeyPatch) -> None:
    found = WebhookEndpoint.objects.filter(pk=endpoint().pk)
    found.update(secret="0123456789ab:gone")
