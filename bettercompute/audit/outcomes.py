"""How acts end: apart from the tables, which the server loads later than what names this."""

from django.db import models


class Outcome(models.TextChoices):
    """How an act ended."""

    ALLOWED = "allowed", "done"
    DENIED = "denied", "refused: who asked may not"
    FAILED = "failed", "did not happen"
