from django.apps import AppConfig


class IamConfig(AppConfig):
    """Who may."""

    name = "bettercompute.iam"
    label = "iam"

    def ready(self) -> None:
        """Every entry point sets Django up, so logging is configured here, once for all of them."""
        from bettercompute.web import logs

        logs.configure()
