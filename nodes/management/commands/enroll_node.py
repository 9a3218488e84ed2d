"""Give out the right to become a node's agent."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from bettercompute import acts
from nodes import enrollment
from nodes.models import Node

HOURS_MAX = 24 * 7


class Command(BaseCommand):
    """``manage.py enroll_node node_01…``."""

    help = "Print a one-time token with which the agent of a node enrols its key."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("node", help="the node's id")
        parser.add_argument("--hours", type=int, default=24, help="how long it works (default 24)")

    @acts.by_command("enroll_node")
    def handle(self, *args: Any, **options: Any) -> None:
        """Print the token, which is shown this once."""
        hours: int = options["hours"]
        if not 1 <= hours <= HOURS_MAX:
            raise CommandError(f"--hours must be 1 to {HOURS_MAX}.")
        if not Node.objects.filter(pk=options["node"]).exists():
            raise CommandError(f"There is no node {options['node']}.")
        made = enrollment.create(node_id=options["node"], valid_seconds=hours * 3_600)
        self.stderr.write(f"Works once, until {made.expires_at:%Y-%m-%d %H:%M} UTC:")
        self.stdout.write(made.token)
