"""What a receiver of webhooks does with a message: it checks it with the public package."""

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any
from unittest import mock

from standardwebhooks import Webhook, WebhookVerificationError

NotVerified = WebhookVerificationError


def verified(
    secret: str, *, headers: Mapping[str, str], body: bytes, now: int | None = None
) -> Any:
    """The message, if it was signed with ``secret`` and is new at ``now`` (seconds).

    The package reads the machine's clock, tests have one of their own; without ``now`` it is the
    moment at which the message says that it was sent.

    Raises:
        NotVerified: nobody who knows the secret sent this, or not now.
    """
    at = float(headers["webhook-timestamp"]) if now is None else now

    class Then(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(at, tz or UTC)

    with mock.patch("standardwebhooks.webhooks.datetime", Then):
        return Webhook(secret).verify(body, dict(headers))
