"""What a request asks for, and whether there is room for it: counted, never planned."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.model.ground import Ground, Kind, Node, Pool

MIG_PARTS = 7
MILLI = {"gpu": 1_000, "gpu.mig": 1_000 // MIG_PARTS}


@dataclass(frozen=True)
class Wish:
    """One line of devices, perhaps from each of several nodes, for a time."""

    pool: str
    kind: Kind
    minimum: int
    maximum: int
    nodes: int
    same_rack: bool
    duration: int
    start: int | None
    lease: int | None
    vcpu: int  #: asked beyond or below the share

    def share(self, pool: Pool) -> int:
        """CPUs that come with the devices, of each node, at the full count."""
        per_node = pool.vcpu_per_gpu * self.maximum
        return per_node // MIG_PARTS if self.kind[0] == "gpu.mig" else per_node

    def booked(self, pool: Pool) -> int:
        """CPUs booked of each node at the full count: the share is the floor."""
        return max(self.share(pool), self.vcpu)

    def amount(self, pool: Pool, count: int) -> int:
        """CPUs booked of a node that gives so many devices."""
        return self.booked(pool) * count // self.maximum

    def charges(self, pool: Pool) -> dict[str, int]:
        """What is charged, at the most devices."""
        amounts = {
            "gpuMilli": MILLI[self.kind[0]] * self.maximum * self.nodes,
            "vcpu": (self.booked(pool) - self.share(pool)) * self.nodes,
        }
        return {resource: amount for resource, amount in amounts.items() if amount}

    def begins(self, now: int) -> int:
        """When its window begins if it is placed now: a start that has passed is now."""
        return now if self.start is None else max(self.start, now)


def read(body: Mapping[str, Any]) -> Wish:
    """A create's body."""
    (line,) = body["devices"]
    count, gang = line["count"], body.get("gang") or {"nodes": 1, "topology": "any"}
    lease = body.get("leaseSeconds")
    return Wish(
        pool=body["poolId"],
        kind=(line["class"], line.get("profile", "")),
        minimum=count["min"] if isinstance(count, dict) else count,
        maximum=count["max"] if isinstance(count, dict) else count,
        nodes=gang["nodes"],
        same_rack=gang["topology"] == "same-rack",
        duration=body["duration"],
        start=body.get("start"),
        lease=None if lease is None else lease * 1_000,
        vcpu=(body.get("resources") or {}).get("vcpu", 0),
    )


def most(wish: Wish, pool: Pool, ground: Ground, node: Node, *, start: int, end: int) -> int:
    """How many devices the node could give, up to as many as are asked for."""
    if not node.takes_work(books_cpus=wish.booked(pool) > 0):
        return 0
    count = min(wish.maximum, len(ground.free(node, wish.kind, start, end)))
    if wish.booked(pool):
        room = ground.room(node, start, end)
        while count and wish.amount(pool, count) > room:
            count -= 1
    return count


def fits(wish: Wish, pool: Pool, ground: Ground, *, start: int, duration: int) -> bool:
    """Whether there are enough nodes that give enough, in one rack where that is asked."""
    giving = [
        node
        for node in ground.nodes.values()
        if node.pool == wish.pool
        and wish.minimum <= most(wish, pool, ground, node, start=start, end=start + duration)
    ]
    if not wish.same_rack:
        return len(giving) >= wish.nodes
    racks = Counter(node.rack for node in giving if node.rack is not None)
    return max(racks.values(), default=0) >= wish.nodes
