"""NVIDIA's inventory reader: one text in, one host out.

It takes what ``nvidia-smi`` printed: ``-q -x`` (XML, v10 to v13), ``-q`` (text), or a whole capture
in which ``-L``, ``topo -m`` and ``mig -lgi`` stand beside one of these and add what it lacks.

It promises that whatever the text, the outcome is a host or `InventoryUnreadable`, which says what
was expected; and that a broken card is an unhealthy device and costs its neighbours nothing.
Cards without a usable UUID (masked in a capture, unreadable on a lost card) get one derived from
what is stable, and say so in ``attributes["uuid-derived-from"]``.
"""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from bettercompute.agent.inventory import (
    GPUS_PER_HOST_MAX,
    Gpu,
    HostInventory,
    InventoryUnreadable,
)
from bettercompute.agent.vendors import (
    nvidia_card,
    nvidia_text,
    nvidia_xml,
    topology,
)
from bettercompute.agent.vendors.nvidia_tree import Section

TEXT_CHARS_MAX = 8 * 1024 * 1024

_NO_DEVICES = "No devices were found"
_EXPECTED = "expected the output of `nvidia-smi -q -x` or `nvidia-smi -q`"


def read_file(path: Path, *, hostname: str = "") -> HostInventory:
    """The host in a file. Raises: InventoryUnreadable, naming the file."""
    try:
        with path.open("rb") as file:
            content = file.read(TEXT_CHARS_MAX + 1)
    except OSError as error:
        raise InventoryUnreadable(f"{path.name}: {error.strerror or error}") from error
    return read(content.decode("utf-8-sig", "replace"), source=path.name, hostname=hostname)


def read(text: str, *, source: str = "input", hostname: str = "") -> HostInventory:
    """The host that the text describes.

    ``source`` is named in errors. ``hostname`` becomes the host's, and keeps derived UUIDs of
    different hosts apart; without it the source's name does.
    Raises: InventoryUnreadable.
    """
    if len(text) > TEXT_CHARS_MAX:
        raise InventoryUnreadable(f"{source}: longer than {TEXT_CHARS_MAX} characters; {_EXPECTED}")
    document, around = _split(text, source=source)
    listings = nvidia_text.read_listings(around)
    sections = list(document.all("gpu"))
    if len(sections) > GPUS_PER_HOST_MAX:
        raise InventoryUnreadable(f"{source}: more than {GPUS_PER_HOST_MAX} GPUs in one host")
    gpus = _gpus(sections, listings=listings, host=hostname or source)
    if not gpus and document.count("attached_gpus") != 0 and _NO_DEVICES not in text:
        # A log cut short must not look like a host that lost all its cards.
        raise InventoryUnreadable(f"{source}: expected at least one GPU, found a log with none")
    try:
        return HostInventory(
            hostname=hostname,
            driver_version=document.text("driver_version") or "",
            cuda_version=document.text("cuda_version") or "",
            gpus=_with_topology(gpus, topology.read(around)),
            warnings=tuple(_warnings(document, gpus)),
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InventoryUnreadable(f"{source}: {first['msg']}") from error


def _split(text: str, *, source: str) -> tuple[Section, str]:
    """The log, and the text in which to look for the other commands' outputs."""
    if f"<{nvidia_xml.ROOT}" in text:
        xml, around = nvidia_xml.split(text)
        return nvidia_xml.read(xml, source=source), around
    if nvidia_text.MARKER in text:
        return nvidia_text.read(text, source=source), text
    if nvidia_text.read_listings(text).unreachable or _NO_DEVICES in text:
        return Section("nvidia_smi_log"), text
    if "NVIDIA-SMI has failed" in text:
        raise InventoryUnreadable(f"{source}: nvidia-smi could not reach the driver; {_EXPECTED}")
    raise InventoryUnreadable(f"{source}: {_EXPECTED}, found {_beginning(text)}")


def _gpus(sections: Sequence[Section], *, listings: nvidia_text.Listings, host: str) -> list[Gpu]:
    gpus = [
        nvidia_card.read(section, index=index, host=host, listings=listings)
        for index, section in enumerate(sections)
    ]
    known = {gpu.pci_bus_id.upper() for gpu in gpus}
    for bus_id, said in sorted(listings.unreachable.items())[: GPUS_PER_HOST_MAX - len(gpus)]:
        if bus_id not in known:
            gpus.append(nvidia_card.unreachable(bus_id, index=len(gpus), host=host, said=said))
    return gpus


def _with_topology(gpus: Sequence[Gpu], rows: dict[int, topology.Row]) -> tuple[Gpu, ...]:
    """The same cards with their links and NUMA nodes; unchanged where no matrix was printed."""
    uuids = {gpu.index: gpu.uuid for gpu in gpus}
    groups = topology.nvlink_groups({index: row.nvlinks for index, row in rows.items()})
    return tuple(
        gpu.model_copy(
            update={
                "numa_node": row.numa_node,
                "cpulist": row.cpulist,
                "nvlink_group": f"nvlink-{groups[gpu.index]}" if gpu.index in groups else None,
                "nvlinks": tuple(uuids[peer] for peer in sorted(row.nvlinks) if peer in uuids),
            }
        )
        if (row := rows.get(gpu.index))
        else gpu
        for gpu in gpus
    )


def _warnings(document: Section, gpus: Sequence[Gpu]) -> list[str]:
    attached = document.count("attached_gpus")
    warnings = []
    if attached is not None and attached != len(gpus):
        warnings.append(f"the driver counts {attached} GPUs and describes {len(gpus)}")
    if not gpus:
        warnings.append("no GPU was found")
    derived = sum("uuid-derived-from" in gpu.attributes for gpu in gpus)
    if derived:
        warnings.append(f"{derived} GPU UUIDs are derived: masked or unreadable in the output")
    return warnings


def _beginning(text: str) -> str:
    words = " ".join(text[:200].split())[:40]
    return repr(words) if words else "nothing"
