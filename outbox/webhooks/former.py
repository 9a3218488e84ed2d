"""Former secrets: what was replaced signs on, each until its own overlap has passed.

They are on the endpoint's row, in two columns, the newest first: whoever claims its deliveries has
read them with it, and nobody changes them who has not locked it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bettercompute import clock, errors
from bettercompute.wire.webhooks import FORMER_SECRETS_MAX
from outbox.models import WebhookEndpoint

OVERLAP = timedelta(hours=24)


class TooManySecrets(errors.InvalidState):
    """As many former secrets sign as may: wait until the first of them ends, or end all of them."""

    def __init__(self, *, until: datetime) -> None:
        super().__init__(
            f"{FORMER_SECRETS_MAX} former secrets of it sign still, the first of them until"
            f" {until:%Y-%m-%d %H:%M:%S} UTC. Rotate again after that, or with expirePrevious,"
            " which ends all of them at once.",
            most=FORMER_SECRETS_MAX,
            until=clock.to_ms(until),
        )


@dataclass(frozen=True, slots=True)
class Former:
    """A secret that was replaced, and until when it signs beside the one there is."""

    sealed: str
    until: datetime


def kept(secrets: Sequence[str], untils: Sequence[datetime]) -> tuple[Former, ...]:
    """As they are stored: the newest first, those included that are over and not yet forgotten."""
    return tuple(Former(*each) for each in zip(secrets, untils, strict=True))


def signing(found: Sequence[Former], *, now_ms: int) -> tuple[Former, ...]:
    """Those that sign then."""
    return tuple(each for each in found if clock.to_ms(each.until) > now_ms)


def of(endpoint: WebhookEndpoint) -> tuple[Former, ...]:
    """Those of an endpoint that sign now, the newest first."""
    found = kept(endpoint.former_secrets, endpoint.former_until)
    return signing(found, now_ms=clock.now_ms()) if found else ()
