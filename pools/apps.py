from django.apps import AppConfig


class PoolsConfig(AppConfig):
    """What can be had, by whom, when, at what price."""

    name = "pools"
