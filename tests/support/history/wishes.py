"""What the load asks for: bodies drawn from a seed, each valid, so that a refusal means something.

Only whole GPUs with exact counts, so that what a reservation must hold is plain from its request.
Starts lie on a coarse grid from the latest instant that the server itself has told: windows collide
often, and no clock of the client's is needed.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Seat:
    """A token, the tenant it acts for, and the pools it may book."""

    name: str
    token: str
    tenant: str
    pools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wishes:
    """The kinds of things that are asked for, and how often."""

    gpus: Sequence[int] = (1, 1, 1, 2, 4)
    durations: Sequence[str] = ("2s", "5s", "20m", "1h", "2h")
    future: float = 0.4  #: how often a start ahead
    slots: int = 6  #: of how many different starts
    slot_ms: int = 30 * MINUTE_MS
    gangs: float = 0.1
    gang_nodes: Sequence[int] = (2,)
    leases: float = 0.1

    def body(self, rng: random.Random, seat: Seat, now_ms: int | None) -> dict[str, Any]:
        """A create's body, without its key. Without a ``now_ms`` it starts when it is placed."""
        body: dict[str, Any] = {
            "tenantId": seat.tenant,
            "poolId": rng.choice(seat.pools),
            "devices": [{"class": "gpu", "count": rng.choice(self.gpus)}],
            "duration": rng.choice(self.durations),
        }
        if now_ms is not None and rng.random() < self.future:
            slot = now_ms // self.slot_ms + rng.randint(1, self.slots)
            body["start"] = slot * self.slot_ms
            body["duration"] = rng.choice(self.durations[-3:])
        if rng.random() < self.gangs:
            body["gang"] = {"nodes": rng.choice(self.gang_nodes), "topology": "any"}
        if rng.random() < self.leases:
            body["leaseSeconds"] = 3_600
        return body


def twisted(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same body, but for what is asked for: under the same key it must be refused."""
    (line,) = body["devices"]
    return {**body, "devices": [{**line, "count": line["count"] + 1}]}
