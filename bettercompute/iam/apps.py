from django.apps import AppConfig


class IamConfig(AppConfig):
    """Who may."""

    name = "bettercompute.iam"
    label = "iam"
