"""Bound what a lost client of ours can hold (C24)."""

from typing import Any

from django.core.management.base import BaseCommand

from bettercompute.coordination import timeouts


class Command(BaseCommand):
    """Set the timeouts of the database role in use; run it once as each role of a deployment."""

    help = "Sets the timeouts of the role of DATABASE_URL, in its database, where they are unset."

    def handle(self, *args: Any, **options: Any) -> None:
        """Set what is unset and say what it was."""
        done = timeouts.apply()
        for name in done:
            self.stdout.write(f"{name} = {timeouts.WANTED[name]}, for new sessions")
        if not done:
            self.stdout.write("The role has its timeouts: nothing to do.")
