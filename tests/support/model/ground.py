"""What there is to book: nodes with their devices and CPUs, pools, and who holds which of it when.

Instants are epoch milliseconds, windows half-open. Nothing here imports the product, so a mistake
there is not repeated here.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

Kind = tuple[str, str]  # class and MIG profile


@dataclass
class Node:
    """A host, its devices by kind, and all that keeps new work from it."""

    id: str
    pool: str
    rack: str | None
    devices: dict[str, Kind]
    vcpu: int
    cordoned: bool = False
    reachable: bool = True
    enforces_limits: bool = True
    sick: set[str] = field(default_factory=set)
    quarantined: set[str] = field(default_factory=set)

    def takes_work(self, *, books_cpus: bool) -> bool:
        """Whether anything new is placed here; where CPUs are booked, they must be enforced."""
        return not self.cordoned and self.reachable and (self.enforces_limits or not books_cpus)

    def usable(self, kind: Kind) -> set[str]:
        """Devices of a kind that may be given to somebody."""
        return {
            device
            for device, of in self.devices.items()
            if of == kind and device not in self.sick and device not in self.quarantined
        }


@dataclass(frozen=True)
class Pool:
    """What a pool allows, to whom, and how many CPUs come with a GPU."""

    id: str
    tenants: frozenset[str]
    vcpu_per_gpu: int
    max_duration: int
    max_ahead: int
    max_pending: int


@dataclass(frozen=True)
class Claim:
    """Devices and CPUs of one node, for one allocation, for a window."""

    reservation: str
    allocation: str
    node: str
    devices: frozenset[str]
    vcpu: int
    start: int
    end: int

    def meets(self, start: int, end: int) -> bool:
        """Whether it holds at any instant of the window."""
        return max(self.start, start) < min(self.end, end)


class Ground:
    """Nodes, and every claim there is or was on them."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node.id: node for node in nodes}
        self.claims: dict[str, Claim] = {}

    def add(self, claim: Claim) -> None:
        """Somebody holds this from now on."""
        assert claim.allocation not in self.claims, f"{claim.allocation} is used again"
        self.claims[claim.allocation] = claim

    def give_back(self, allocation: str, at: int) -> None:
        """It ends at an instant; what has not begun by then never was."""
        claim = self.claims[allocation]
        if claim.start >= at:
            del self.claims[allocation]
        elif claim.end > at:
            self.claims[allocation] = replace(claim, end=at)

    def prolong(self, allocation: str, end: int) -> None:
        """It ends later."""
        self.claims[allocation] = replace(self.claims[allocation], end=end)

    def free(self, node: Node, kind: Kind, start: int, end: int) -> set[str]:
        """Devices of a kind that nobody holds in the window."""
        taken = {device for claim in self._on(node.id, start, end) for device in claim.devices}
        return node.usable(kind) - taken

    def room(self, node: Node, start: int, end: int) -> int:
        """CPUs that nobody holds at any instant of the window; negative where a host shrank."""
        claims = self._on(node.id, start, end)
        instants = {start, *(claim.start for claim in claims if claim.start >= start)}
        level = max(
            sum(claim.vcpu for claim in claims if claim.start <= at < claim.end) for at in instants
        )
        return node.vcpu - level

    def bound(self, claims: Iterable[Claim], after: int) -> int | None:
        """Until when these could go on from ``after``; None where nothing bounds them."""
        bounds = []
        for own in claims:
            node = self.nodes[own.node]
            others = [each for each in self.claims.values() if each.end > after]
            bounds += [max(other.start, after) for other in others if other.devices & own.devices]
            here = [other for other in others if other.node == own.node]
            for at in {after, *(max(other.start, after) for other in here)}:
                level = sum(other.vcpu for other in here if other.start <= at < other.end)
                if own.vcpu and level + own.vcpu > node.vcpu:
                    bounds.append(at)
        return min(bounds, default=None)

    def doubles(self) -> list[str]:
        """Devices that two hold at one instant: there must be none."""
        by_device: dict[str, list[Claim]] = defaultdict(list)
        for claim in self.claims.values():
            for device in claim.devices:
                by_device[device].append(claim)
        return [
            f"{device}: {one.reservation} and {other.reservation}"
            for device, held in by_device.items()
            for number, one in enumerate(held)
            for other in held[number + 1 :]
            if one.meets(other.start, other.end)
        ]

    def _on(self, node: str, start: int, end: int) -> list[Claim]:
        return [
            claim
            for claim in self.claims.values()
            if claim.node == node and claim.meets(start, end)
        ]
