"""Print what `/metrics` answers: for hosts that have workers, and no web process to ask."""

import importlib
from typing import Any

from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    """Write the metrics to standard output, as a textfile collector takes them."""

    help = "Prints the metrics of this host's processes in Prometheus's text format."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--rows", action="store_true", help="also what rows say")

    def handle(self, *args: Any, **options: Any) -> None:
        # By name: the page is above this app in the layers.
        page: Any = importlib.import_module("bettercompute.web.metrics_page")
        self.stdout.write(page.text(rows=options["rows"]).decode())
