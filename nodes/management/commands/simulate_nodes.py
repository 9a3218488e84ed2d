"""Run simulated node agents against a gateway."""

import asyncio
import contextlib
import logging
import resource
import signal
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from bettercompute.simulator.faults import Board
from bettercompute.simulator.fleet import Fleet, Member
from nodes import simulated
from nodes.protocol.signing import NodeKey

COUNT_MAX = 10_000
FILES_PER_NODE = 8


class Command(BaseCommand):
    """``manage.py simulate_nodes --count 8 --gateway http://127.0.0.1:8001``."""

    help = (
        "Run the agents of the first COUNT nodes whose inventory is known, in this process, with"
        " real keys through a real gateway. Faults are switched in DATA/faults.json while it runs."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--count", type=int, required=True, help="how many nodes")
        parser.add_argument(
            "--gateway", action="append", required=True, help="a gateway's URL; may be repeated"
        )
        parser.add_argument(
            "--data",
            type=Path,
            help="where keys and holds are kept (default: DATA/nodes)",
        )
        parser.add_argument(
            "--tell-use",
            action="store_true",
            help="the agents say when devices are used, which they are at once unless their fault "
            "is unused",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Simulate until told to stop."""
        count: int = options["count"]
        if not 1 <= count <= COUNT_MAX:
            raise CommandError(f"--count must be 1 to {COUNT_MAX}.")
        data: Path = options["data"] or settings.ENV.bettercompute_data / "nodes"
        keys = Keys(data)
        nodes = simulated.prepare(count=count, kid_of=lambda node_id: keys.of(node_id).kid)
        connection.close()
        if not nodes:
            raise CommandError("No node has an inventory yet; import or seed some first.")
        if len(nodes) < count:
            self.stderr.write(f"Only {len(nodes)} nodes have an inventory; simulating those.")
        members = [
            Member(
                node_id=node.node_id,
                key=keys.of(node.node_id),
                inventory=node.inventory,
                enrolment_token=node.enrolment_token,
                directory=data / node.node_id,
            )
            for node in nodes
        ]
        # One line a call of a thousand nodes is no log.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        _allow_files(len(members) * FILES_PER_NODE)
        self.stdout.write(f"Simulating {len(members)} nodes.")
        _run(members, options["gateway"], data / "faults.json", tells_use=options["tell_use"])


class Keys:
    """The keys of simulated nodes, made once and kept as files."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._keys: dict[str, NodeKey] = {}

    def of(self, node_id: str) -> NodeKey:
        """This node's key."""
        if node_id not in self._keys:
            self._keys[node_id] = self._load(self._data / node_id / "key.pem")
        return self._keys[node_id]

    def _load(self, path: Path) -> NodeKey:
        with contextlib.suppress(FileNotFoundError):
            return NodeKey.load(path)
        key = NodeKey.generate()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_bytes(key.pem())
        fresh.replace(path)
        return key


def _run(members: list[Member], gateways: list[str], faults: Path, *, tells_use: bool) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, task.cancel)
        board = Board()
        fleet = Fleet(members, gateways, board=board, tells_use=tells_use)
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(board.follow(faults))
                tasks.create_task(fleet.run())

    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
    else:
        uvloop.run(main())


def _allow_files(wanted: int) -> None:
    """Raise the limit of open files as far as it may be raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = wanted + 256
    if soft < enough:
        most = enough if hard == resource.RLIM_INFINITY else min(enough, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
