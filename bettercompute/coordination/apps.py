from django.apps import AppConfig


class CoordinationConfig(AppConfig):
    """Who acts, and what is due."""

    name = "bettercompute.coordination"
    label = "coordination"
