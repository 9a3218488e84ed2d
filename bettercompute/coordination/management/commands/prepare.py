"""Everything between an empty database and a start, in one process: each Django costs seconds."""

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from bettercompute.coordination import leases, timeouts


class Command(BaseCommand):
    """Migrates, bounds what our role may hold, collects static files, expires all leases; seeds."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--demo", action="store_true", help="seed, and print what it made")

    def handle(self, *args: Any, **options: Any) -> None:
        # Standard output is the seed's: one line of JSON.
        call_command("migrate", interactive=False, verbosity=1, stdout=self.stderr)
        timeouts.apply()
        if settings.STATIC_ROOT is not None:  # one machine serves them from the packages
            call_command("collectstatic", interactive=False, verbosity=0, stdout=self.stderr)
        # C34: the caller holds the data directory's lock and has stopped what an earlier run left.
        leases.expire_all()
        if options["demo"]:
            call_command("seed", stdout=self.stdout)
