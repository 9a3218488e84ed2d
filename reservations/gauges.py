"""What metrics say of reservations."""

from collections.abc import Iterable

from bettercompute import sql
from bettercompute.states import ReservationState
from bettercompute.telemetry.gauges import Gauge, Look

GAUGES = sql.load(__package__, "gauges")

_LIVE = (
    ReservationState.DRAFT,
    ReservationState.AWAITING_CONFIRMATION,
    ReservationState.PENDING,
    ReservationState.PLACED,
    ReservationState.BINDING,
    ReservationState.ACTIVE,
)


def live() -> Iterable[Gauge]:
    """Reservations that go on, by state."""
    counts = Gauge("reservations", "Reservations that have not ended, by state.", ("state",))
    oldest = Gauge(
        "reservations_oldest_seconds", "How long ago a state's oldest was made.", ("state",)
    )
    degraded = Gauge("reservations_degraded", "Reservations whose host or devices fail them.")
    degraded.add(0)
    for state in _LIVE:
        counts.add(0, state)
        oldest.add(0, state)
    for state, count, age, failed in GAUGES.all("live"):
        counts.add(count, state)
        oldest.add(age.total_seconds(), state)
        degraded.add(failed)
    return counts, oldest, degraded


def late() -> Iterable[Gauge]:
    """Starts and ends that are due and not done."""
    row = GAUGES.one("late")
    assert row is not None
    found = Gauge(
        "reservations_late_seconds", "How long the latest start or end has been due.", ("moment",)
    )
    found.add(row[0].total_seconds(), "start")
    found.add(row[1].total_seconds(), "end")
    return (found,)


ALL: tuple[Look, ...] = (live, late)
