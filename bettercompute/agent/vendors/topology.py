"""Reader of ``nvidia-smi topo -m``: which cards are linked to which, and which CPUs are near.

The matrix has one row a card. Its cells say how the card reaches the column's device: ``NV18`` is
18 bonded NVLinks, everything else (``PIX``, ``PXB``, ``PHB``, ``NODE``, ``SYS``) is PCIe. After
the cells come the CPUs and NUMA nodes nearest to the card.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bettercompute.agent import cpulists

GPUS_MAX = 256
LINE_CHARS_MAX = 16_384

_ANSI = re.compile(r"\x1b?\[[0-9;]*m")
_DEVICE = re.compile(r"(?:GPU|NIC)\d{1,4}|mlx\w{1,16}|CX\w{1,16}")
_GPU = re.compile(r"GPU(\d{1,4})")
_NVLINK = re.compile(r"NV\d{1,3}")
_NUMA = re.compile(r"\d{1,4}")


@dataclass(frozen=True, slots=True)
class Row:
    """One card's line. ``nvlinks`` are the indexes of the cards it is linked to."""

    index: int
    nvlinks: frozenset[int]
    cpulist: str
    numa_node: int | None


def read(text: str) -> dict[int, Row]:
    """The matrix, by GPU index; empty where the text holds none."""
    columns: list[str] = []
    rows: dict[int, Row] = {}
    for line in _ANSI.sub("", text).splitlines():
        if len(line) > LINE_CHARS_MAX:
            continue
        header = _header(line)
        if header and columns:
            break  # a second matrix: a later command's
        columns = header or columns
        row = _row(line, columns) if columns else None
        if row is not None and len(rows) < GPUS_MAX:
            rows[row.index] = row
    return _symmetric(rows)


def nvlink_groups(links: Mapping[int, frozenset[int]]) -> dict[int, int]:
    """For each linked card its group, named by the group's lowest index.

    In a group every card is linked to every other. Where links do not form such groups by
    themselves (a ring, a cube mesh), cards join the first group that they fit, lowest index first;
    a card that fits none has no group.
    """
    groups: list[list[int]] = []
    for gpu in sorted(links):
        for group in groups:
            if all(gpu in links[member] and member in links[gpu] for member in group):
                group.append(gpu)
                break
        else:
            groups.append([gpu])
    return {gpu: group[0] for group in groups if len(group) > 1 for gpu in group}


def _header(line: str) -> list[str]:
    """The devices of a header line, which starts with a blank where rows have their name."""
    if not line[:1].isspace() or _GPU.match(line.strip()) is None:
        return []
    return [cell for cell in line.split() if _DEVICE.fullmatch(cell)]


def _row(line: str, columns: Sequence[str]) -> Row | None:
    # Copied output has lost its tabs; then an empty cell cannot be told from a wide gap.
    cells = [cell.strip() for cell in (line.split("\t") if "\t" in line else line.split())]
    name = _GPU.fullmatch(cells[0]) if cells else None
    if name is None or len(cells) <= len(columns):
        return None
    links = cells[1 : 1 + len(columns)]
    near = [*cells[1 + len(columns) :], "", ""]
    return Row(
        index=int(name[1]),
        nvlinks=frozenset(_linked(columns, links)),
        cpulist=cpulists.write(cpulists.read(near[0])),
        numa_node=_first_numa(near[1]),
    )


def _linked(columns: Sequence[str], links: Sequence[str]) -> Iterator[int]:
    for column, link in zip(columns, links, strict=True):
        peer = _GPU.fullmatch(column)
        if peer and _NVLINK.fullmatch(link):
            yield int(peer[1])


def _first_numa(cell: str) -> int | None:
    """A card near several nodes (``0-1``) is as near to the first as to any."""
    match = _NUMA.match(cell)
    return int(match[0]) if match else None


def _symmetric(rows: Mapping[int, Row]) -> dict[int, Row]:
    """Only links that both ends show: a damaged line must not promise a link."""
    return {
        index: Row(
            index,
            frozenset(
                peer
                for peer in row.nvlinks
                if peer != index and peer in rows and index in rows[peer].nvlinks
            ),
            row.cpulist,
            row.numa_node,
        )
        for index, row in rows.items()
    }
