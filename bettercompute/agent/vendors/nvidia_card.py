"""One card of an ``nvidia-smi -q`` log, as a device. Never raises: a card that makes no sense is
an unhealthy device, so that its neighbours are still read."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bettercompute.agent import inventory
from bettercompute.agent.inventory import EccMode, Health, MigMode
from bettercompute.agent.vendors import nvidia_mig, nvidia_models, nvidia_text
from bettercompute.agent.vendors.nvidia_tree import Section, is_absent, is_broken, printable

# NVIDIA replaces a card with this many retired pages; it has room for 64.
RETIRED_PAGES_MAX = 60

_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MASKED = re.compile(r"(GPU-|0x)?[0-]+")
_BUS_ID = re.compile(r"[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F]", re.IGNORECASE)
_FREE_TEXT = ("processes/", "accounted_processes/")  # other people's names are not our readings

_ATTRIBUTES = {
    "brand": ("product_brand",),
    "architecture": ("product_architecture",),
    "vbios": ("vbios_version",),
    "part-number": ("board_part_number",),
    "compute-mode": ("compute_mode",),
    "fabric-clique": ("fabric/cliqueId", "fabric/cliqueid"),
    "fabric-cluster": ("fabric/clusterUuid", "fabric/clusteruuid"),
}
_WORTH_A_REASON = {
    "serial": ("serial", "serial_number"),
    "minor": ("minor_number",),
    "memory": ("fb_memory_usage/total",),
    "mig": ("mig_mode/current_mig", "mig_mode/current"),
    "ecc": ("ecc_mode/current_ecc", "ecc_mode/current"),
}
_UNCORRECTABLE = (
    "sram_uncorrectable",
    "sram_uncorrectable_parity",
    "sram_uncorrectable_secded",
    "sram_uncorrectable_sec_ded",
    "dram_uncorrectable",
    "double_bit/total",
)
_ALARMS = {
    "gpu_reset_status/reset_required": "a reset is required",
    "remapped_rows/remapped_row_failure": "remapping a memory row failed",
    "remapped_rows/remapping_failure_occurred": "remapping a memory row failed",
    "ecc_errors/aggregate/sram_threshold_exceeded": "too many SRAM errors",
    "ecc_errors/unrepairable_memory": "memory cannot be repaired",
}
_PENDING_REPAIRS = {
    "remapped_rows/remapped_row_pending": "a remapped row waits for a reset",
    "remapped_rows/pending": "a remapped row waits for a reset",
    "retired_pages/pending_blacklist": "a retired page waits for a reset",
    "retired_pages/pending_page_blacklist": "a retired page waits for a reset",
    "retired_pages/pending_retirement": "a retired page waits for a reset",
    "ecc_errors/channel_repair_pending": "a memory channel waits for its repair",
    "ecc_errors/tpc_repair_pending": "a processing cluster waits for its repair",
}


@dataclass(frozen=True, slots=True)
class _Identity:
    uuid: str
    derived_from: str  # empty where the driver gave the UUID


def read(
    section: Section, *, index: int, host: str, listings: nvidia_text.Listings
) -> inventory.Gpu:
    """The device of one ``gpu`` section. ``host`` names the machine, for cards without a UUID."""
    bus_id = _bus_id(section)
    model = section.text("product_name") or "unknown"
    identity = _identity(section, host=host, bus_id=bus_id, index=index)
    memory_mib = section.count("fb_memory_usage/total") or 0
    model_class = nvidia_models.model_class(model)
    mig = nvidia_mig.read(
        section,
        gpu_uuid=identity.uuid,
        gpu_index=index,
        model_class=model_class,
        memory_mib=memory_mib,
        listings=listings,
    )
    ecc = _ecc(section)
    reasons = list(_troubles(section, ecc, memory_mib))
    if complaint := listings.unreachable.get(bus_id.upper()):
        reasons.append(_cannot_reach(complaint))
    return inventory.Gpu(
        uuid=identity.uuid,
        index=index,
        minor=_bounded(section.count("minor_number")),
        serial=_serial(section),
        model=model,
        model_class=model_class,
        memory_mib=memory_mib,
        pci_bus_id=bus_id,
        mig=_mig_mode(section),
        mig_instances=mig.instances,
        ecc=ecc,
        health=Health.UNHEALTHY if reasons else Health.HEALTHY,
        health_reason=printable("; ".join(dict.fromkeys(reasons))),
        attributes=_attributes(section, identity, mig),
        unreported=dict(_unreported(section)),
    )


def unreachable(bus_id: str, *, index: int, host: str, said: str) -> inventory.Gpu:
    """A card of which the driver says only that it cannot be reached."""
    identity = _identity(Section("gpu"), host=host, bus_id=bus_id, index=index)
    return inventory.Gpu(
        uuid=identity.uuid,
        index=index,
        model="unknown",
        model_class="unknown",
        memory_mib=0,
        pci_bus_id=bus_id,
        health=Health.UNHEALTHY,
        health_reason=printable(_cannot_reach(said)),
        attributes={"uuid-derived-from": identity.derived_from},
    )


def _cannot_reach(said: str) -> str:
    return f"the driver cannot reach it: {said}"


def _bus_id(section: Section) -> str:
    """A lost card's PCI values are unreadable, but the log's heading still says where it was."""
    said = section.text("pci/pci_bus_id", "pci/bus_id")
    heading = _BUS_ID.search(section.value)
    return said or (heading[0] if heading else "")


def _identity(section: Section, *, host: str, bus_id: str, index: int) -> _Identity:
    said = section.say("uuid", "gpu_uuid")
    if _UUID.fullmatch(said) and not _MASKED.fullmatch(said):
        return _Identity("GPU-" + said[4:].lower(), "")
    # A masked, missing or unreadable UUID. The device identifier (PDI) belongs to the card alone,
    # so two captures of one card agree; a place on a host is second best.
    pdi = section.text("pdi", "gpu_pdi")
    if pdi and not _MASKED.fullmatch(pdi):
        origin = f"device identifier {pdi}"
    elif bus_id:
        origin = f"host {host}, PCI bus id {bus_id}"
    else:
        origin = f"host {host}, position {index}"
    return _Identity(inventory.derived_id(origin), printable(origin))


def _troubles(section: Section, ecc: inventory.Ecc, memory_mib: int) -> Iterator[str]:
    """Why this card must not be booked."""
    for path, value in section.leaves():
        if is_broken(value) and not path.startswith(_FREE_TEXT):
            yield f"{path.replace('_', ' ')} reads {value!r}"
    if section.value and is_broken(section.value):
        yield printable(section.value)
    if memory_mib == 0:
        yield "its memory size cannot be read"
    for path, reason in (_ALARMS | _PENDING_REPAIRS).items():
        if section.say(path).lower() == "yes":
            yield reason
    if ecc.volatile_uncorrectable:
        yield f"{ecc.volatile_uncorrectable} uncorrectable memory errors since the last reset"
    if (ecc.retired_pages or 0) >= RETIRED_PAGES_MAX:
        yield f"{ecc.retired_pages} retired memory pages"
    action = section.text("gpu_recovery_action")
    if action and action.lower() != "none":
        yield f"the driver recommends: {action}"
    yield from _fabric_troubles(section)


def _fabric_troubles(section: Section) -> Iterator[str]:
    """A card whose NVLink fabric is not up cannot run CUDA at all."""
    state, status = section.text("fabric/state"), section.text("fabric/status")
    if state and state.lower() not in ("completed", "not supported"):
        yield f"NVLink fabric: {state}"
    elif state and status and status.lower() != "success":
        yield f"NVLink fabric: {status}"


def _ecc(section: Section) -> inventory.Ecc:
    mode = section.say("ecc_mode/current_ecc", "ecc_mode/current").lower()
    return inventory.Ecc(
        mode=EccMode(mode) if mode in ("enabled", "disabled") else EccMode.UNSUPPORTED,
        volatile_uncorrectable=_sum(
            section, *(f"ecc_errors/volatile/{name}" for name in _UNCORRECTABLE)
        ),
        aggregate_uncorrectable=_sum(
            section, *(f"ecc_errors/aggregate/{name}" for name in _UNCORRECTABLE)
        ),
        retired_pages=_sum(
            section,
            "retired_pages/multiple_single_bit_retirement/retired_count",
            "retired_pages/double_bit_retirement/retired_count",
            "retired_pages/single_bit_ecc",
            "retired_pages/double_bit_ecc",
        ),
        remapped_rows=_sum(
            section,
            "remapped_rows/remapped_row_corr",
            "remapped_rows/remapped_row_unc",
            "remapped_rows/correctable_error",
            "remapped_rows/uncorrectable_error",
        ),
        repair_pending=any(section.say(path).lower() == "yes" for path in _PENDING_REPAIRS),
    )


def _sum(section: Section, *paths: str) -> int | None:
    """The sum of what is counted; None where nothing is."""
    counts = [count for path in paths if (count := section.count(path)) is not None]
    return sum(counts) if counts else None


def _mig_mode(section: Section) -> MigMode:
    current = section.say("mig_mode/current_mig", "mig_mode/current").lower()
    pending = section.say("mig_mode/pending_mig", "mig_mode/pending").lower()
    if current not in ("enabled", "disabled"):
        return MigMode.UNSUPPORTED
    if pending in ("enabled", "disabled") and pending != current:
        return MigMode.PENDING
    return MigMode(current)


def _serial(section: Section) -> str | None:
    said = section.text("serial", "serial_number")
    # A masked serial would make all masked cards one.
    return None if said is None or not said.strip("0") else said


def _attributes(section: Section, identity: _Identity, mig: nvidia_mig.Reading) -> dict[str, str]:
    said = {name: section.text(*paths) for name, paths in _ATTRIBUTES.items()}
    said["uuid-derived-from"] = identity.derived_from
    said["mig-placement"] = mig.placement
    said["mig-unplaced"] = printable(mig.unplaced)
    said["mig-uuids"] = "derived" if mig.uuids_derived else ""
    # A masked or unused value says nothing: zeros for a fabric's cluster mean that there is none.
    return {
        name: value
        for name, value in said.items()
        if value and (name == "fabric-clique" or not _MASKED.fullmatch(value))
    }


def _unreported(section: Section) -> Iterator[tuple[str, str]]:
    for name, paths in _WORTH_A_REASON.items():
        said = section.say(*paths)
        if is_absent(said) or is_broken(said):
            yield name, said or "not in the output"


def _bounded(number: int | None) -> int | None:
    return number if number is not None and number <= 65_535 else None
