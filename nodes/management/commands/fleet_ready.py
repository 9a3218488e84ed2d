"""Wait until nodes can be given work."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from nodes import sessions

LOOK_SECONDS = 0.25


class Command(BaseCommand):
    """``manage.py fleet_ready --nodes 8``."""

    help = "Exit with 0 once NODES nodes have a live session and their reported inventory applied."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--nodes", type=int, required=True, help="how many")
        parser.add_argument("--timeout", type=float, default=60.0, help="seconds (default 60)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Look until there are enough, or time is up."""
        wanted: int = options["nodes"]
        deadline = time.monotonic() + options["timeout"]
        while (ready := sessions.settled()) < wanted:
            if time.monotonic() >= deadline:
                raise CommandError(f"{ready} of {wanted} nodes are ready.")
            time.sleep(LOOK_SECONDS)
        self.stdout.write(f"{ready} nodes are ready.")
