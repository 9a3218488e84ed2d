"""Let every lease expire (C34)."""

from typing import Any

from django.core.management.base import BaseCommand

from bettercompute.coordination import leases


class Command(BaseCommand):
    """For the one machine that knows that no other process of the control plane runs."""

    help = "Expires all leases, so that a start does not wait for a killed run's ghosts."

    def handle(self, *args: Any, **options: Any) -> None:
        """Expire; rows stay, since epochs must survive."""
        self.stdout.write(f"{leases.expire_all()} leases expired.")
