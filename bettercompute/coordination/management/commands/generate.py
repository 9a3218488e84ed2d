"""Write the generated pages of docs/."""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection


class Command(BaseCommand):
    """Write states, events and checks; from a database made for it, the schema."""

    help = "Writes the generated pages of docs/."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--no-database", action="store_true", help="leave out what needs a database"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        # By name: the pages describe the layers above this one.
        reference: Any = importlib.import_module("bettercompute.reference")
        self._write(reference.PAGES)
        if options["no_database"]:
            return
        before = connection.settings_dict["NAME"]
        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
        try:
            self._write(reference.DATABASE_PAGES)
        finally:
            connection.creation.destroy_test_db(before, verbosity=0)

    def _write(self, pages: Mapping[str, Callable[[], str]]) -> None:
        for name, page in pages.items():
            (Path(settings.BASE_DIR) / name).write_text(page(), encoding="utf-8")
            self.stdout.write(name)
