"""What a reservation costs: GPU-hours for now; pools have no prices yet."""

from bettercompute.wire.reservations import Quote

MILLI = 1_000
HOUR_MS = 3_600_000


def quote(*, gpu_milli: int, duration_ms: int) -> Quote:
    """GPU-hours of the whole window, to the thousandth, reckoned in integers."""
    thousandths = gpu_milli * duration_ms // HOUR_MS
    return Quote(gpu_hours=thousandths / MILLI)
