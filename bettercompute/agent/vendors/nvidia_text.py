"""Reader of ``nvidia-smi -q`` as text, and of the listings printed around it.

A whole capture of a host holds several commands' outputs one after another; each reader here
finds its own part by its shape and ignores the rest. Where a log is printed twice (idle, under
load), the first is read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bettercompute.agent.inventory import InventoryUnreadable
from bettercompute.agent.vendors.nvidia_tree import DEPTH_MAX, SECTIONS_MAX, Section, printable

MARKER = "NVSMI LOG"
LINE_CHARS_MAX = 4096

_GPU_HEADING = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_NOT_A_NAME = re.compile(r"[^a-z0-9]+")

_LISTED_GPU = re.compile(r"GPU (\d{1,4}): (.+?) \(UUID: (\S+)\)")
_LISTED_MIG = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d{1,4}): \(UUID: (\S+)\)")
_LISTED_PLACE = re.compile(
    r"\|\s*(\d{1,4})\s+MIG (\S+)\s+\d{1,5}\s+(\d{1,5})\s+(\d{1,4}):(\d{1,4})\s*\|"
)
_UNREACHABLE = re.compile(
    r"Unable to determine the device handle for GPU\s*(?:\d{1,4}\s*:\s*)?"
    r"((?:[0-9A-F]{4,8}:)?[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F])\s*:\s*(.*)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ListedMig:
    """A line of ``nvidia-smi -L``: the device's profile (``1c.3g.71gb`` when split) and UUID."""

    profile: str
    uuid: str


@dataclass(frozen=True, slots=True)
class Listings:
    """What the commands beside ``-q`` say, by GPU index."""

    mig: dict[tuple[int, int], ListedMig]  # (GPU, MIG device) from -L
    starts: dict[tuple[int, int], int]  # (GPU, GPU instance id) from mig -lgi
    unreachable: dict[str, str]  # PCI bus id → what the driver said


def read(text: str, *, source: str) -> Section:
    """The log as a root with one ``gpu`` section a card. Raises: InventoryUnreadable."""
    root = Section("nvidia_smi_log")
    open_sections: list[tuple[int, Section]] = [(-1, root)]
    for count, line in enumerate(_log_lines(text)):
        heading = _GPU_HEADING.match(line)
        if heading:
            name, value, indent = "gpu", heading[1], 0
        else:
            indent = len(line) - len(line.lstrip())
            name, _, value = line.strip().partition(" :")
            name, value = _normal(name), value.strip()
        while open_sections[-1][0] >= indent:
            open_sections.pop()
        if len(open_sections) > DEPTH_MAX or count > SECTIONS_MAX:
            raise InventoryUnreadable(f"{source}: the log is deeper or longer than any GPU's")
        section = Section(name, value)
        open_sections[-1][1].children.append(section)
        open_sections.append((indent, section))
    return root


def read_listings(text: str) -> Listings:
    """Everything ``-L``, ``mig -lgi`` and error lines say, wherever they stand in the text."""
    mig: dict[tuple[int, int], ListedMig] = {}
    starts: dict[tuple[int, int], int] = {}
    unreachable: dict[str, str] = {}
    gpu = -1
    for line in text.splitlines():
        if len(line) > LINE_CHARS_MAX:
            continue
        if match := _LISTED_GPU.match(line):
            gpu = int(match[1])
        elif gpu >= 0 and (match := _LISTED_MIG.match(line)):
            mig.setdefault((gpu, int(match[2])), ListedMig(match[1], match[3]))
        elif match := _LISTED_PLACE.match(line.strip()):
            starts[int(match[1]), int(match[3])] = int(match[4])
        elif match := _UNREACHABLE.search(line):
            unreachable.setdefault(_full_bus_id(match[1]), printable(match[2]))
    return Listings(mig, starts, unreachable)


def _log_lines(text: str) -> Iterator[str]:
    """The lines of the first log, without the frame a capture puts around it."""
    inside = False
    for line in text.splitlines():
        if MARKER in line and line.startswith("="):
            if inside:
                return
            inside = True
        elif inside and line.startswith("####"):
            return
        elif inside and line.strip() and len(line) <= LINE_CHARS_MAX:
            yield line


def _normal(name: str) -> str:
    """The text's names in the XML's spelling: ``FB Memory Usage`` → ``fb_memory_usage``."""
    return _NOT_A_NAME.sub("_", name.lower()).strip("_")


def _full_bus_id(bus_id: str) -> str:
    """``0000:CB:00.0`` and ``CB:00.0`` as ``-q`` writes them: ``00000000:CB:00.0``."""
    domain, _, rest = bus_id.upper().rpartition(":")[0].rpartition(":")
    return f"{domain or '0':0>8}:{rest}:{bus_id.upper().rpartition(':')[2]}"
