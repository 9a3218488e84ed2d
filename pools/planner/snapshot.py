"""What the planner sees: the nodes of a pool for one window, read at one moment.

Interchangeable atoms of a node form a *cell* and are counted, never enumerated in combinations
(case 9). A snapshot may be *narrowed* to the likeliest nodes; then "does not fit" is not an answer
yet and has no reasons, and the caller plans again on the whole.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from bettercompute.wire.reservations import DeviceClass

SYSTEM_LABELS = "bc.dev/"  # what begins so is written by the system itself


@dataclass(frozen=True, slots=True)
class Taint:
    """Keeps work off a node unless tolerated; ``PreferNoSchedule`` only makes it a late choice."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        """As people write it: ``key=value:NoSchedule``."""
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


@dataclass(frozen=True, slots=True)
class Cell:
    """The atoms of one node that differ only in their id."""

    device_class: DeviceClass
    model: str
    memory_mib: int
    free: tuple[str, ...]  #: healthy atoms that nothing books within the window
    profile: str = ""
    driver: str = ""
    numa_node: int | None = None
    nvlink_group: int | None = None
    #: of each booked atom, when the last booking that meets the window ends (epoch ms), sorted
    busy_until: tuple[int, ...] = ()
    unhealthy: int = 0  #: atoms that are unhealthy or quarantined

    @property
    def kind(self) -> Hashable:
        """What makes atoms of a node one cell, whatever holds them."""
        return (
            self.device_class,
            self.model,
            self.memory_mib,
            self.profile,
            self.driver,
            self.numa_node,
            self.nvlink_group,
        )

    @property
    def total(self) -> int:
        """All bookable atoms, whatever holds them."""
        return len(self.free) + len(self.busy_until) + self.unhealthy

    @property
    def memory_gib(self) -> int:
        """As it is sold: an 81,559 MiB card is one of 80 GiB."""
        return -(-self.memory_mib // 1024)


@dataclass(frozen=True, slots=True)
class Node:
    """A host, and what of it is free for the whole window."""

    id: str
    name: str
    cells: tuple[Cell, ...]
    state: str = "ready"
    cordoned: bool = False
    connected: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    system_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    #: when the last maintenance that meets the window ends (epoch ms); None: there is none
    worked_on_until: int | None = None
    #: free amount by resource at the window's peak; empty: the host counts none and books none
    resources: Mapping[str, int] = field(default_factory=dict)
    #: all there is by resource, booked or not; empty: nobody looked
    capacity: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_reported(self) -> bool:
        """Whether it ever said what it has: one that is registered has not until it joins."""
        return bool(self.cells or self.system_labels)

    def label(self, key: str) -> str | None:
        """A label's value; under ``bc.dev/`` only what the system itself wrote counts."""
        return (self.system_labels if key.startswith(SYSTEM_LABELS) else self.labels).get(key)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A pool for one window."""

    nodes: tuple[Node, ...]
    whole: bool = True  #: False: only the likeliest nodes were read
    around: bool = True  #: False: there may be more such nodes, which were not looked at
