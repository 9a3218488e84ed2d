"""What this installation lets webhooks call, from its settings."""

from django.conf import settings

from outbox.webhooks.addresses import Rules


def current() -> Rules:
    """The operator's rules."""
    return Rules(networks=settings.WEBHOOK_NETWORKS, plain_http=settings.WEBHOOK_PLAIN_HTTP)
