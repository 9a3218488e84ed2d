"""Add a published fleet to a pool."""

import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from bettercompute import acts
from bettercompute.errors import ApiError
from nodes import importing, openb


class Command(BaseCommand):
    """The openb list: the hosts of a production cluster, one a line."""

    help = "Imports the openb node list (`sn,cpu_milli,memory_mib,gpu,model`)."

    def add_arguments(self, parser: CommandParser) -> None:
        """Which format, which file, which pool."""
        parser.add_argument("format", choices=["openb"])
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument("--tenant", required=True, help="the pool's owner, by slug")
        parser.add_argument("--pool", required=True, help="name or id")
        parser.add_argument("--limit", type=_count, help="only the first so many hosts")
        parser.add_argument(
            "--capability", action="append", default=[], help="what the agents can do"
        )

    @acts.by_command("import_fleet")
    def handle(self, *args: Any, **options: Any) -> None:
        """Read the whole list first, so that a bad line imports nothing."""
        try:
            pool_id = importing.find_pool(options["tenant"], options["pool"])
            with options["file"].open(encoding="utf-8", newline="") as lines:
                nodes = openb.read(lines)[: options["limit"]]
            hosts = {node.name: openb.host(node) for node in nodes}
            done = importing.import_hosts(pool_id, hosts, capabilities=options["capability"])
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror or error}") from error
        except (ApiError, openb.OpenbUnreadable, UnicodeDecodeError) as error:
            raise CommandError(f"{options['file']}: {error}") from error
        self.stdout.write(
            f"{done.created} nodes added, {done.known} known already; {done.devices} GPUs."
        )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)
