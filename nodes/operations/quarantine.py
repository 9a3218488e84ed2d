"""Quarantine: a device is booked no more until an operator ends it (N18).

What holds the device keeps it: only new placements avoid it.
"""

from dataclasses import dataclass

from bettercompute import errors
from bettercompute.iam.callers import Caller
from nodes import eligibility, queries
from nodes.models import Device
from nodes.queries import Occupant


@dataclass(frozen=True, slots=True)
class Effect:
    """What holds the device, now or later."""

    device_id: str
    node_name: str
    occupants: tuple[Occupant, ...]


def preview(caller: Caller, *, device_id: str) -> Effect:
    """What a quarantine, or its end, would leave in place."""
    node_id = _node_of(device_id)
    place = queries.access_node(caller, node_id, action=queries.MANAGE)
    return Effect(device_id, place.name, tuple(queries.occupants(node_id, device_id=device_id)))


def apply(caller: Caller, *, device_id: str, reason: str) -> bool:
    """Book it no more; False where it was so already."""
    queries.access_node(caller, _node_of(device_id), action=queries.MANAGE)
    return eligibility.quarantine(device_id, reason=reason)


def end(caller: Caller, *, device_id: str, reason: str) -> bool:
    """Let it be booked again; False where there was no quarantine."""
    queries.access_node(caller, _node_of(device_id), action=queries.MANAGE)
    return eligibility.end_quarantine(device_id, reason=reason)


def _node_of(device_id: str) -> str:
    node_id = Device.objects.filter(pk=device_id).values_list("node_id", flat=True).first()
    if node_id is None:
        raise errors.NotFound(f"There is no device {device_id[:200]}.")
    return node_id
