"""Fill a deployment with the demo."""

import json
import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from reservations import demo


class Command(BaseCommand):
    """``manage.py seed``: makes what is missing, prints what there is as one line of JSON."""

    help = "Fill a deployment with the demo. Refused in production settings."

    def add_arguments(self, parser: CommandParser) -> None:
        """How many nodes, and where passwords and tokens are kept."""
        parser.add_argument("--nodes", type=int, default=_nodes(), help="default: SIM, or 5")
        parser.add_argument(
            "--secrets",
            type=Path,
            default=os.environ.get("BETTERCOMPUTE_DEMO_SECRETS"),
            help="a private file with the demo's passwords and tokens; read and written",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not getattr(settings, "DEMO_ALLOWED", False):
            raise CommandError("Demo data is refused in production settings.")
        path: Path | None = options["secrets"]
        kept = demo.Secrets.parse(path.read_text(encoding="utf-8") if path else "")
        made = demo.build(kept, nodes=options["nodes"])
        if path is not None:
            _write(path, kept.text())
        self.stdout.write(json.dumps(made))


def _nodes() -> int:
    given = os.environ.get("SIM", "")
    return int(given) if given.isdigit() else demo.MAIN_NODES + demo.MIG_NODES


def _write(path: Path, text: str) -> None:
    """Replace the file at once, readable by its owner only."""
    fresh = path.with_name(path.name + ".new")
    fresh.touch(mode=0o600)
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
