"""What of a host can be held, by the names that bookings use (N9).

A name outlives reboots; what the driver wants to hear (`CUDA_VISIBLE_DEVICES`) may not, so it is
looked up in the inventory of this boot each time.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bettercompute.agent.inventory import Gpu, HostInventory, MigMode

_SLOT = re.compile(r"s(0|[1-9][0-9]{0,2})\Z")


@dataclass(frozen=True, slots=True)
class Atom:
    """A GPU or a part of one, as it is on this boot."""

    name: str
    gpu_uuid: str
    minor: int | None
    visible: str  # what the driver calls it now


class Atoms:
    """The atoms of one host."""

    def __init__(self, host: HostInventory) -> None:
        self._named: Mapping[str, Atom] = {
            atom.name: atom for gpu in host.gpus for atom in _atoms(gpu)
        }

    def get(self, name: str) -> Atom | None:
        """The atom of this name, or None where this host has none.

        How many slots a GPU has is the pool's policy, so any slot of a GPU that is handed out
        whole is one.
        """
        gpu_uuid, _, part = name.partition("/")
        if part and _SLOT.match(part):
            gpu = self._named.get(gpu_uuid)
            return None if gpu is None else Atom(name, gpu_uuid, gpu.minor, gpu.visible)
        return self._named.get(name)


def overlap(one: str, other: str) -> bool:
    """Whether two atoms share silicon: the same one, or a GPU and a part of it."""
    if one == other:
        return True
    gpu, _, part = one.partition("/")
    other_gpu, _, other_part = other.partition("/")
    return gpu == other_gpu and not (part and other_part)


def _atoms(gpu: Gpu) -> list[Atom]:
    if gpu.mig is not MigMode.ENABLED:
        return [Atom(gpu.uuid, gpu.uuid, gpu.minor, gpu.uuid)]
    # A GPU in MIG mode exposes its instances only (C10).
    return [
        Atom(instance.atom_id, gpu.uuid, gpu.minor, instance.uuid or instance.atom_id)
        for instance in gpu.mig_instances
    ]
