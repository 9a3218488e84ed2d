"""How well some nodes and devices are now: what makes a reservation on them Degraded (R23)."""

from collections.abc import Sequence
from dataclasses import dataclass

from bettercompute import sql

HEALTH = sql.load(__package__, "health")


@dataclass(frozen=True, slots=True)
class Health:
    """What is wrong, each list sorted; nothing, if all are empty."""

    unreachable: tuple[str, ...]  # node names
    unhealthy_devices: tuple[str, ...]
    overcommitted: tuple[str, ...]  # names of nodes with less than what is booked


def of(*, node_ids: Sequence[str], device_ids: Sequence[str]) -> Health:
    """What is wrong with these nodes and devices, in one read."""
    row = HEALTH.one("of", node_ids=list(node_ids), device_ids=list(device_ids))
    assert row is not None
    return Health(*(tuple(found or ()) for found in row))
