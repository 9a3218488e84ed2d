"""Add machines to a pool from what nvidia-smi printed on them."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from bettercompute import acts
from bettercompute.agent import hosts, inventory
from bettercompute.agent.inventory import HostInventory
from bettercompute.agent.vendors import nvidia
from bettercompute.errors import ApiError
from nodes import importing, layouts

NODES_MAX = 10_000


class Command(BaseCommand):
    """Each file is one machine; or, with --multiply, one card to make machines of."""

    help = (
        "Reads `nvidia-smi -q -x` (XML), `nvidia-smi -q` or whole captures (text). With"
        " --multiply N the first card of the file becomes hosts of N cards like it: --nodes of"
        " them, with the CPUs and memory given."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Files, the pool, and how to multiply."""
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument("--tenant", required=True, help="the pool's owner, by slug")
        parser.add_argument("--pool", required=True, help="name or id")
        parser.add_argument("--name-prefix", default="", help="of the nodes' names")
        parser.add_argument("--multiply", type=_positive, metavar="GPUS", help="cards a host")
        parser.add_argument("--nodes", type=_positive, default=1, help="hosts made of one file")
        parser.add_argument("--vcpu", type=_positive, help="CPUs of each host")
        parser.add_argument("--memory-gib", type=_positive, help="memory of each host")
        parser.add_argument(
            "--mig",
            action="append",
            default=[],
            type=_profile,
            metavar="PROFILE=COUNT",
            help="cut every card so; may be repeated",
        )
        parser.add_argument(
            "--capability", action="append", default=[], help="what the agents can do"
        )

    @acts.by_command("import_inventory")
    def handle(self, *args: Any, **options: Any) -> None:
        """Read everything first, so that a bad file imports nothing."""
        try:
            pool_id = importing.find_pool(options["tenant"], options["pool"])
            found: dict[str, HostInventory] = {}
            for path in options["files"]:
                for name, host in self._hosts(path, options).items():
                    if name in found:
                        raise CommandError(
                            f"{path}: a second host named {name}; give --name-prefix, or import"
                            " the files one by one."
                        )
                    found[name] = host
            inventory.refuse_duplicates(found)
            done = importing.import_hosts(pool_id, found, capabilities=options["capability"])
        except (ApiError, inventory.DuplicateIdentity, inventory.InventoryUnreadable) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{done.created} nodes added, {done.known} known already; {done.devices} GPUs."
        )

    def _hosts(self, path: Path, options: dict[str, Any]) -> dict[str, HostInventory]:
        captured = _read(path)
        if options["multiply"] is None and options["nodes"] > 1:
            raise CommandError("--nodes makes sense with --multiply only: a machine is one node.")
        if options["multiply"] is None:
            name = f"{options['name_prefix']}{captured.hostname or path.stem}"[:253]
            amounts = {"vcpu": options["vcpu"], "memory_gib": options["memory_gib"]}
            given = {field: value for field, value in amounts.items() if value is not None}
            return {name: _cut(captured.model_copy(update=given), options["mig"])}
        return {
            name: _cut(self._multiplied(captured, name, options), options["mig"])
            for name in self._names(path, options)
        }

    def _names(self, path: Path, options: dict[str, Any]) -> list[str]:
        if options["nodes"] > NODES_MAX:
            raise CommandError(f"--nodes: at most {NODES_MAX}.")
        prefix = options["name_prefix"] or f"{path.stem}-"
        return [f"{prefix}{number:02}" for number in range(1, options["nodes"] + 1)]

    def _multiplied(
        self, captured: HostInventory, name: str, options: dict[str, Any]
    ) -> HostInventory:
        # The pool is part of the key: the same names in two pools are different machines.
        key = f"{options['tenant']}/{options['pool']}/{name}"
        vcpu = options["vcpu"] or captured.vcpu
        try:
            host = hosts.multiply(
                captured,
                gpus=options["multiply"],
                node_key=key,
                vcpu=vcpu,
                memory_gib=options["memory_gib"] or captured.memory_gib,
                numa_nodes=2 if vcpu >= 2 else 1,
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
        return host.model_copy(update={"hostname": name})


def _read(path: Path) -> HostInventory:
    try:
        return nvidia.read_file(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error


def _cut(host: HostInventory, wanted: list[tuple[str, int]]) -> HostInventory:
    if not wanted:
        return host
    try:
        card = layouts.card(host.gpus[0].model_class, memory_mib=host.gpus[0].memory_mib)
        layout = layouts.pack(card.name, Counter(dict(wanted)))
        return hosts.with_mig_layout(host, layout)
    except IndexError as error:
        raise CommandError("--mig: the file has no card to cut") from error
    except (layouts.UnknownCard, layouts.UnknownProfile, layouts.LayoutImpossible) as error:
        raise CommandError(f"--mig: {error}") from error


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 9 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _profile(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    return name, _positive(count)
