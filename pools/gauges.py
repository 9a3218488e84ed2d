"""What metrics say of capacity."""

from collections.abc import Iterable

from bettercompute import sql
from bettercompute.telemetry.gauges import Gauge, Look

GAUGES = sql.load(__package__, "gauges")

POOLS_MAX = 200  # pools with labels of their own; the smaller ones are one, named "others"
_OTHERS = ("others", "others")
_USES = ("booked", "idle", "unavailable")


def gpus() -> Iterable[Gauge]:
    """GPUs by pool and use."""
    found = Gauge(
        "pool_gpus",
        "GPUs of a pool that are booked now, idle, or of no use now; parts count as parts.",
        ("pool", "pool_name", "use"),
    )
    for place, (pool_id, name, *counts) in enumerate(GAUGES.all("gpus")):
        labels = (pool_id, name) if place < POOLS_MAX else _OTHERS
        for use, count in zip(_USES, counts, strict=True):
            found.add(count, *labels, use)
    return (found,)


ALL: tuple[Look, ...] = (gpus,)
