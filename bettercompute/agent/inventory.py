"""What a GPU host is made of, whatever the vendor: the body of a node's Inventory report (N7, N9).

A device's identity is its UUID. Its index and minor number change when a neighbour dies or the
driver reorders cards, so nothing is ever looked up by them. A MIG instance's own UUID dies with a
reboot; its atom id (which card, where on it, which profile) does not, so bookings name the atom.

A card that cannot be read is still a device: it is reported with ``health=unhealthy`` and a reason,
beside its healthy neighbours. What a driver did not say is ``None`` (or 0 for an amount), and
``unreported`` keeps what it said instead, so "not supported" and "lost" stay distinguishable.
"""

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

GPUS_PER_HOST_MAX = 256
MIG_INSTANCES_PER_GPU_MAX = 64
TEXT_CHARS_MAX = 255
CPULIST_CHARS_MAX = 32 * 1024

Text = Annotated[str, StringConstraints(max_length=TEXT_CHARS_MAX, pattern=r"^[^\x00]*$")]
# Ids become part of atom ids (`<uuid>/m…`), CDI names and URLs: no separators in them.
DeviceId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
CpuList = Annotated[str, StringConstraints(max_length=CPULIST_CHARS_MAX, pattern=r"^[0-9,\-]*$")]
Amount = Annotated[int, Field(ge=0, le=2**53)]
Index = Annotated[int, Field(ge=0, le=65_535)]

_DERIVED_IDS = uuid.uuid5(uuid.NAMESPACE_URL, "https://bc.dev/devices")


class InventoryUnreadable(Exception):
    """The text is not an inventory this reader knows."""


class DuplicateIdentity(Exception):
    """Two hosts claim the same device."""


class Health(StrEnum):
    """Whether a device may be booked, as far as the host itself can tell."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


class MigMode(StrEnum):
    """Whether a card is cut into MIG instances; ``pending`` waits for a reset."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    PENDING = "pending"
    UNSUPPORTED = "unsupported"


class Sharing(StrEnum):
    """How a card is shared without partitions."""

    NONE = "none"
    MPS = "mps"
    TIME_SLICE = "time-slice"


class EccMode(StrEnum):
    """Whether memory errors are corrected."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    UNSUPPORTED = "unsupported"


def _wire_name(field: str) -> str:
    """The API's spelling: camelCase, with units as people write them (``memoryGiB``)."""
    return to_camel(field).replace("Gib", "GiB").replace("Mib", "MiB")


class _Reported(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=_wire_name,
        validate_by_name=True,
        validate_by_alias=True,
    )

    def to_wire(self) -> dict[str, Any]:
        """This, as the JSON object of the node protocol."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> Self:
        """This, from the node protocol's JSON object. Raises ``pydantic.ValidationError``."""
        return cls.model_validate(body)


class NumaNode(_Reported):
    """One NUMA node of the host."""

    id: Index
    cpulist: CpuList = ""
    memory_gib: Amount = 0


class MigInstance(_Reported):
    """One GPU instance of a card in MIG mode.

    ``start`` and ``size`` are in the card's memory slices. ``compute_uuids`` has more than one
    entry where the instance is split into compute instances: several UUIDs, one memory.
    """

    atom_id: Text
    uuid: DeviceId | None = None
    compute_uuids: tuple[DeviceId, ...] = ()
    profile: Text
    start: Index
    size: Annotated[int, Field(ge=1, le=64)]
    memory_mib: Amount = 0


class Ecc(_Reported):
    """Memory errors. A count is ``None`` where the card does not keep it."""

    mode: EccMode = EccMode.UNSUPPORTED
    volatile_uncorrectable: Amount | None = None
    aggregate_uncorrectable: Amount | None = None
    retired_pages: Amount | None = None
    remapped_rows: Amount | None = None
    repair_pending: bool = False


class Gpu(_Reported):
    """One card."""

    uuid: DeviceId
    index: Index
    minor: Index | None = None
    serial: Text | None = None
    model: Text
    model_class: Text
    memory_mib: Amount
    pci_bus_id: Text
    numa_node: Index | None = None
    cpulist: CpuList = ""
    nvlink_group: Text | None = None
    nvlinks: tuple[DeviceId, ...] = ()
    mig: MigMode = MigMode.UNSUPPORTED
    mig_instances: Annotated[
        tuple[MigInstance, ...], Field(max_length=MIG_INSTANCES_PER_GPU_MAX)
    ] = ()
    sharing: Sharing = Sharing.NONE
    ecc: Ecc = Ecc()
    health: Health = Health.HEALTHY
    health_reason: Text = ""
    attributes: dict[Text, Text] = Field(default_factory=dict)
    unreported: dict[Text, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _atoms_are_of_this_card(self) -> Self:
        for instance in self.mig_instances:
            expected = mig_atom_id(self.uuid, start=instance.start, profile=instance.profile)
            if instance.atom_id != expected:
                raise ValueError(f"MIG instance {instance.atom_id!r} should be {expected!r}")
        return self


class HostInventory(_Reported):
    """One host and its cards. Fields a reader cannot know keep their empty defaults."""

    hostname: Text = ""
    boot_id: Text = ""
    vcpu: Amount = 0
    memory_gib: Amount = 0
    hugepages_1gi: Amount = Field(default=0, alias="hugepages1Gi")
    hugepages_2mi: Amount = Field(default=0, alias="hugepages2Mi")
    numa: tuple[NumaNode, ...] = ()
    isolated_cpulist: CpuList = ""
    driver_version: Text = ""
    cuda_version: Text = ""
    gpus: Annotated[tuple[Gpu, ...], Field(max_length=GPUS_PER_HOST_MAX)] = ()
    warnings: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _uuids_are_distinct(self) -> Self:
        counts = Counter(gpu.uuid for gpu in self.gpus)
        twice = sorted(uuid for uuid, count in counts.items() if count > 1)
        if twice:
            raise ValueError(f"two GPUs of one host have the UUID {twice[0]}")
        return self


def mig_atom_id(gpu_uuid: str, *, start: int, profile: str) -> str:
    """The name of a place on a card that outlives reboots (N9)."""
    return f"{gpu_uuid}/m{start}-{profile}"


def derived_id(origin: str, *, prefix: str = "GPU") -> str:
    """A device id where the machine gives none: the same one for the same origin, for ever.

    Version 5 UUIDs in a name space of our own, so no derived id equals a reported one.
    """
    return f"{prefix}-{uuid.uuid5(_DERIVED_IDS, origin)}"


def refuse_duplicates(hosts: Mapping[str, HostInventory]) -> None:
    """Raise where two of these hosts, by the caller's name for each, claim one device.

    Raises: DuplicateIdentity, naming every such UUID and the hosts that claim it.
    """
    claims: defaultdict[str, list[str]] = defaultdict(list)
    for name, host in hosts.items():
        for gpu in host.gpus:
            claims[gpu.uuid].append(name)
    clashes = [
        f"{uuid} is in {' and in '.join(names)}"
        for uuid, names in sorted(claims.items())
        if len(names) > 1
    ]
    if clashes:
        raise DuplicateIdentity(
            "A GPU's UUID is its identity, so one may be imported only once: "
            + "; ".join(clashes)
            + ". Remove one of the inputs."
        )
