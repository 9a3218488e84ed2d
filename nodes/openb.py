"""Reader of the openb node list: the hosts of a production GPU cluster, one a line.

The list (``sn,cpu_milli,memory_mib,gpu,model``) is published with the Kubernetes scheduler
simulator of HKUST. It says how many cards of which model a host has and nothing else, so the
inventory made here invents nothing else: no NVLink, one NUMA node, and a memory size only for
models whose size is public (``G2`` and ``G3`` are pseudonyms).
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bettercompute.agent import cpulists, inventory
from bettercompute.agent.inventory import Gpu, HostInventory, NumaNode

COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
LINES_MAX = 100_000
GPUS_MAX = 64
NUMBER_DIGITS_MAX = 12

# Model in the list → (product, class, MiB). The M of V100M16 is the SXM2 module; memory is its
# nominal size. A model that is not here keeps its name as class, with unknown memory.
_MODELS = {
    "A10": ("NVIDIA A10", "A10", 24_576),
    "P100": ("Tesla P100", "P100", 16_384),
    "T4": ("Tesla T4", "T4", 16_384),
    "V100M16": ("Tesla V100 16GB", "V100", 16_384),
    "V100M32": ("Tesla V100 32GB", "V100", 32_768),
}


class OpenbUnreadable(ValueError):
    """The file is not an openb node list; the message names the line."""


@dataclass(frozen=True, slots=True)
class OpenbNode:
    """One host of the list. Thousandths of CPUs and MiB are rounded down to what can be booked."""

    name: str
    vcpu: int
    memory_gib: int
    gpus: int
    model: str


def read(lines: Iterable[str]) -> list[OpenbNode]:
    """Every host of the list, in its order. Raises: OpenbUnreadable."""
    nodes: list[OpenbNode] = []
    seen: dict[str, int] = {}
    for number, cells in _rows(lines):
        node = _node(number, cells)
        if node.name in seen:
            raise OpenbUnreadable(
                f"line {number}: {node.name} is already on line {seen[node.name]}"
            )
        seen[node.name] = number
        nodes.append(node)
    return nodes


def host(node: OpenbNode) -> HostInventory:
    """What that host's agent would report; device ids are derived from its name and the index."""
    cpus = cpulists.write(range(min(node.vcpu, cpulists.CPU_ID_MAX + 1)))
    product, model_class, memory_mib = _MODELS.get(node.model, (node.model, node.model, 0))
    unreported = {} if memory_mib else {"memory": "not in the openb list"}
    return HostInventory(
        hostname=node.name,
        boot_id=inventory.derived_id(f"openb {node.name}, first boot", prefix="boot"),
        vcpu=node.vcpu,
        memory_gib=node.memory_gib,
        numa=(NumaNode(id=0, cpulist=cpus, memory_gib=node.memory_gib),),
        gpus=tuple(
            Gpu(
                uuid=inventory.derived_id(f"openb {node.name}, GPU {index}"),
                index=index,
                minor=index,
                model=product,
                model_class=model_class,
                memory_mib=memory_mib,
                pci_bus_id=f"00000000:{index + 1:02X}:00.0",
                numa_node=0,
                cpulist=cpus,
                attributes={"uuid-derived-from": "openb node name and index"},
                unreported=unreported,
            )
            for index in range(node.gpus)
        ),
    )


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of each line after the header. Raises: OpenbUnreadable."""
    reader = csv.reader(lines, strict=True)
    try:
        header = next(reader, [])
        if tuple(cell.strip().lstrip("\ufeff") for cell in header) != COLUMNS:
            raise OpenbUnreadable(f"line 1: expected {','.join(COLUMNS)}, found {header[:8]}")
        for cells in reader:
            if reader.line_num > LINES_MAX:
                raise OpenbUnreadable(f"line {reader.line_num}: more than {LINES_MAX} lines")
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise OpenbUnreadable(f"line {reader.line_num}: {error}") from error


def _node(number: int, cells: list[str]) -> OpenbNode:
    if len(cells) != len(COLUMNS):
        raise OpenbUnreadable(f"line {number}: expected {len(COLUMNS)} columns, found {len(cells)}")
    name, cpu, memory, gpu, model = (cell.strip() for cell in cells)
    if not name or len(name) > inventory.TEXT_CHARS_MAX or not name.isprintable():
        raise OpenbUnreadable(f"line {number}: sn must be a name")
    gpus = _number(number, "gpu", gpu, most=GPUS_MAX)
    if gpus and not (model and model.isprintable() and len(model) <= inventory.TEXT_CHARS_MAX):
        raise OpenbUnreadable(f"line {number}: {gpus} GPUs without a model")
    return OpenbNode(
        name=name,
        vcpu=_number(number, "cpu_milli", cpu) // 1000,
        memory_gib=_number(number, "memory_mib", memory) // 1024,
        gpus=gpus,
        model=model if gpus else "",
    )


def _number(line: int, column: str, cell: str, *, most: int | None = None) -> int:
    plain = cell.isascii() and cell.isdigit() and len(cell) <= NUMBER_DIGITS_MAX
    if not plain or (most is not None and int(cell) > most):
        limit = "" if most is None else f" up to {most}"
        raise OpenbUnreadable(
            f"line {line}: {column} must be a whole number{limit}, not {cell[:40]!r}"
        )
    return int(cell)
