"""What a reservation may do, written down apart from the product: from the documents alone.

The state table is that of docs/states.md; what is held and charged in which state is that of
docs/consistency.md. Nothing here imports the product, so a mistake there is not repeated here.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

#: What may follow what.
AFTER: dict[str, frozenset[str]] = {
    "draft": frozenset({"awaiting-confirmation", "denied", "expired", "pending", "placed"}),
    "awaiting-confirmation": frozenset({"denied", "expired", "pending", "placed"}),
    "pending": frozenset({"cancelled", "expired", "failed", "placed"}),
    "placed": frozenset({"active", "binding", "cancelled", "failed", "pending", "released"}),
    "binding": frozenset({"active", "failed", "pending", "released"}),
    "active": frozenset({"released"}),
    "denied": frozenset(),
    "released": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
    "expired": frozenset(),
}
TERMINAL = frozenset(state for state, after in AFTER.items() if not after)
#: Devices are booked.
HOLDING = frozenset({"placed", "binding", "active"})
#: The quota is charged; a confirmation is awaited without a charge.
CHARGED = HOLDING | {"pending"}
#: An allocation's states in which its devices are booked to its end.
BOOKED = frozenset({"placed", "binding", "bound"})

#: Operations whose answer is one reservation.
SHOWING = frozenset({"create", "get", "release", "cancel"})

#: What never changes of a reservation.
IMMUTABLE = (
    "id",
    "tenantId",
    "poolId",
    "request",
    "ownerIdentityId",
    "idempotencyKey",
    "hostShare",
    "createdAt",
)

#: Which statuses each operation may answer; every request of the load is valid.
STATUSES: dict[str, frozenset[int]] = {
    "create": frozenset({200, 201, 403, 409, 429, 503}),
    "get": frozenset({200, 304, 404, 429, 503}),
    "list": frozenset({200, 429, 503}),
    "release": frozenset({200, 404, 409, 429, 503}),
    "cancel": frozenset({200, 404, 409, 429, 503}),
    "preview": frozenset({200, 429, 503}),
    "quotas": frozenset({200, 429, 503}),
}


def _distances() -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for begin in AFTER:
        waiting = deque([(begin, 0)])
        while waiting:
            state, steps = waiting.popleft()
            if (begin, state) not in found:
                found[begin, state] = steps
                waiting.extend((after, steps + 1) for after in AFTER[state])
    return found


_DISTANCES = _distances()


def distance(before: str, after: str) -> int | None:
    """The fewest moves from one state to another; None where there is no way."""
    return _DISTANCES.get((before, after))


def nodes_asked(request: Mapping[str, Any]) -> int:
    """How many nodes give all lines."""
    nodes: int = (request.get("gang") or {}).get("nodes", 1)
    return nodes


def gpus_asked(request: Mapping[str, Any]) -> int | None:
    """How many whole GPUs a request must get; None where its lines leave that open."""
    total = 0
    for line in request["devices"]:
        if line.get("class") != "gpu" or not isinstance(line.get("count"), int):
            return None
        total += line["count"]
    return total * nodes_asked(request)


def milli_asked(request: Mapping[str, Any]) -> int:
    """What a request is charged of ``gpuMilli`` at the least."""
    gpus = gpus_asked(request)
    return 0 if gpus is None else gpus * 1_000


def duration_ms(request: Mapping[str, Any]) -> int | None:
    """The duration as answered, which is ``"3600000ms"``."""
    duration = request.get("duration")
    if isinstance(duration, str) and duration.endswith("ms") and duration[:-2].isdigit():
        return int(duration[:-2])
    return None
