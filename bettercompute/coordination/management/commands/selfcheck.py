"""Verify the invariants of the live system (C39)."""

import importlib
import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    """Print what is wrong and what to do; exit 1 if anything is."""

    help = "Verifies the invariants on the live database and says what to do about findings."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON list on stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        # By name: the checks of all apps are above this app in the layers.
        selfcheck: Any = importlib.import_module("bettercompute.selfcheck")
        findings = selfcheck.run()
        if options["json"]:
            self.stdout.write(json.dumps([asdict(finding) for finding in findings]))
        for finding in [] if options["json"] else findings:
            self.stdout.write(f"{finding.check}: {finding.message}\n  do: {finding.do}")
        if findings:
            raise CommandError(f"{len(findings)} findings", returncode=1)
        if not options["json"]:
            self.stdout.write("All is well.")
