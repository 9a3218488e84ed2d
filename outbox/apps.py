from django.apps import AppConfig


class OutboxConfig(AppConfig):
    """What leaves."""

    name = "outbox"
