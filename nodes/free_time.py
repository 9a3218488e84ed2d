"""Until when whoever has devices and host resources could go on with them (R22). A hint."""

from collections.abc import Collection, Sequence
from datetime import datetime

from nodes import bookings, maintenance, resources
from nodes.resources import NodeAmounts


def until(
    device_ids: Collection[str], node_amounts: Sequence[NodeAmounts], *, after: datetime
) -> datetime | None:
    """The first booking of others, host without room, or maintenance from then on; None: never."""
    work = maintenance.first_on([node_id for node_id, _, _ in node_amounts], start=after)
    bounds = (
        bookings.free_until(device_ids, after=after),
        resources.free_until(node_amounts=node_amounts, after=after),
        None if work is None else work.start,
    )
    return min((bound for bound in bounds if bound is not None), default=None)
