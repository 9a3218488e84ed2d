from django.apps import AppConfig


class ReservationsConfig(AppConfig):
    """Claims, from draft to end."""

    name = "reservations"
