from django.apps import AppConfig
from django.db.models.signals import pre_migrate


class CoordinationConfig(AppConfig):
    """Who acts, and what is due."""

    name = "bettercompute.coordination"
    label = "coordination"

    def ready(self) -> None:
        """Let migrations take their time."""
        from bettercompute.coordination import timeouts

        pre_migrate.connect(timeouts.lift, sender=self)
