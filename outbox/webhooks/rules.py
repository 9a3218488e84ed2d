"""What this installation lets webhooks call, from its settings."""

from functools import cache

from django.conf import settings

from bettercompute import errors
from outbox.webhooks import addresses, resolving
from outbox.webhooks.addresses import Refused, Rules
from outbox.webhooks.resolving import Resolver

LOOKUP_SECONDS = 2.0  # whoever saves waits for it; no answer is no refusal


def current() -> Rules:
    """The operator's rules."""
    return Rules(networks=settings.WEBHOOK_NETWORKS, plain_http=settings.WEBHOOK_PLAIN_HTTP)


def accepted(url: str, *, known: str = "") -> str:
    """The URL in its one spelling, if a webhook may be saved with it. Outside any transaction.

    Its name is looked up, unless it is ``known``, so that who saves it is told at once what would
    be refused when it is called.

    Raises:
        errors.InvalidInput: no webhook may call it.
    """
    try:
        target = addresses.parse(url, rules=current())
        if target.url != known:
            resolving.refuse_inner(
                target, rules=current(), resolver=_resolver(), seconds=LOOKUP_SECONDS
            )
    except Refused as refusal:
        raise errors.InvalidInput.at("url", str(refusal)) from refusal
    return target.url


@cache
def _resolver() -> Resolver:
    """This process's, whose threads begin with its first question."""
    return Resolver()
