"""Verify the promises of the live system (C39)."""

import importlib
import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, connection

FOUND = 1


class Command(BaseCommand):
    """Print what is wrong and what to do; exit 1 if anything is."""

    help = "Verifies the invariants on the live database and says what to do about findings."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON list of the findings")
        parser.add_argument("--all", action="store_true", help="also what is well")

    def handle(self, *args: Any, **options: Any) -> None:
        _require_database()
        # By name: the checks of all apps are above this app in the layers.
        selfcheck: Any = importlib.import_module("bettercompute.selfcheck")
        report = selfcheck.run()
        if options["json"]:
            self.stdout.write(json.dumps([asdict(finding) for finding in report.findings]))
        else:
            self._print(report, everything=options["all"])
        if report.findings:
            raise CommandError(f"{len(report.findings)} findings", returncode=FOUND)

    def _print(self, report: Any, *, everything: bool) -> None:
        for outcome in report.outcomes:
            for finding in outcome.findings:
                self.stdout.write(f"{finding.check}: {finding.message}\n  do: {finding.do}")
            if everything and not outcome.findings:
                self.stdout.write(f"{outcome.check.name}: ok: {outcome.check.promise}")
        if not report.findings:
            self.stdout.write(f"All is well: {len(report.outcomes)} checks.")


def _require_database() -> None:
    """Say once, not once a check, that there is nothing to look at."""
    try:
        connection.ensure_connection()
    except Error as error:
        told = " ".join(str(error).split())
        raise CommandError(
            f"The database cannot be reached ({told}). See DATABASE_URL.", returncode=FOUND
        ) from error
