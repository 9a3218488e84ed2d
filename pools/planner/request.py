"""What the planner is asked for: counts and conditions, in integers only.

A demand is a list of *lines* ("4 whole GPUs, every pair linked"), each with alternatives in order
of preference. Without a gang, all lines are served by one node, unless every line says topology
``any``: then the devices may come from several nodes. A gang wants all lines from each of its
nodes. Amounts of host resources are per node, at the full count.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from bettercompute import units, wanted
from bettercompute.units import Unit
from bettercompute.wire.reservations import DeviceClass, GangTopology, Topology

MIG_PARTS = 7  # R30: a MIG instance is worth a seventh of a GPU
MILLI = 1_000

# Which label says where a node is: set by operators, beside the labels under bc.dev/ that are ours.
GANG_LABELS = {
    GangTopology.SAME_RACK: "topology.bc.dev/rack",
    GangTopology.SAME_SWITCH: "topology.bc.dev/switch",
}
LIMITS_LABEL = "bc.dev/cap.devices.limits"
KUBERNETES_LABEL = "bc.dev/cap.binding.kubernetes"


@dataclass(frozen=True, slots=True)
class Term:
    """One condition on a device (model, memoryGiB, driver) or on a label of its node."""

    key: str
    op: str
    values: tuple[str | int, ...] = ()

    @property
    def of_device(self) -> bool:
        """Whether it is judged on the device rather than on the node's labels."""
        return self.key in DEVICE_KEYS

    @property
    def of_hardware(self) -> bool:
        """Whether it is judged on what of a device stays as it is: a driver is replaced."""
        return self.key in HARDWARE_KEYS

    def __str__(self) -> str:
        """As people say it: ``model H100 or H200``."""
        return wanted.term(self.key, self.op, self.values)


HARDWARE_KEYS = ("model", "memoryGiB")
DEVICE_KEYS = (*HARDWARE_KEYS, "driver")


@dataclass(frozen=True, slots=True)
class Line:
    """So many devices of one class; ``minimum`` below ``maximum`` takes as many as fit."""

    device_class: DeviceClass
    minimum: int
    maximum: int
    profile: str = ""
    topology: Topology = Topology.SAME_NODE
    selector: tuple[Term, ...] = ()

    @property
    def unit(self) -> Unit:
        """What its devices are counted in."""
        return wanted.unit(self.device_class, self.profile)

    def __str__(self) -> str:
        """As people say it: ``4 GPUs with nvlink-all``."""
        number = units.counted(self.unit, self.minimum)
        count = number if self.minimum == self.maximum else f"at least {number}"
        if self.topology in {Topology.SAME_NODE, Topology.ANY}:
            return count
        return f"{count} with {self.topology}"


Alternatives = tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint this work accepts; without a value, whatever the taint's value is."""

    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Gang:
    """So many distinct nodes, each serving every line, all or nothing (R16)."""

    nodes: int
    topology: GangTopology = GangTopology.ANY


@dataclass(frozen=True, slots=True)
class Demand:
    """Everything the planner needs to know of a request."""

    lines: tuple[Alternatives, ...]
    gang: Gang | None = None
    tolerations: tuple[Toleration, ...] = ()
    #: host resources booked on each node at the full count (R30)
    resources: Mapping[str, int] = field(default_factory=dict)
    #: a person asked for host resources: a node that counts none cannot give them
    resources_asked: bool = False
    labels: tuple[str, ...] = ()  #: system labels a node must carry
    replicas: int = 4  #: slots per GPU, for the worth of one

    @property
    def may_spread(self) -> bool:
        """Whether the devices may come from several nodes without being a gang."""
        return self.gang is None and all(
            line.topology is Topology.ANY for options in self.lines for line in options
        )

    @property
    def combinations(self) -> int:
        """How many ways there are to choose one alternative a line."""
        return prod(len(options) for options in self.lines)

    @property
    def full_worth(self) -> int:
        """The most that one node (or all nodes of a spread) can be worth: see ``worth``."""
        return full_worth(self.lines, self.replicas)


def worth(device_class: DeviceClass, replicas: int) -> int:
    """A device's worth, in units of which ``gpu_worth`` make a GPU: never a fraction (case 10)."""
    match device_class:
        case DeviceClass.GPU:
            return gpu_worth(replicas)
        case DeviceClass.MIG:
            return replicas
        case DeviceClass.SLOT:
            return MIG_PARTS


def gpu_worth(replicas: int) -> int:
    """How many units of ``worth`` make one GPU."""
    return MIG_PARTS * replicas


def full_worth(lines: tuple[Alternatives, ...], replicas: int) -> int:
    """The worth of all lines at their full count, by the largest alternative of each."""
    return sum(
        max(line.maximum * worth(line.device_class, replicas) for line in options)
        for options in lines
    )


def milli(device_class: DeviceClass, replicas: int) -> int:
    """What one device costs of the quota ``gpuMilli``, rounded down."""
    match device_class:
        case DeviceClass.GPU:
            return MILLI
        case DeviceClass.MIG:
            return MILLI // MIG_PARTS
        case DeviceClass.SLOT:
            return MILLI // replicas
