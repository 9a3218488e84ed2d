from django.apps import AppConfig


class NodesConfig(AppConfig):
    """Machines and the time of their devices."""

    name = "nodes"
