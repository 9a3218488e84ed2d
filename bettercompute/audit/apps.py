from django.apps import AppConfig


class AuditConfig(AppConfig):
    """Who did what."""

    name = "bettercompute.audit"
    verbose_name = "audit"
