"""Where whoever waits for a pool stands in its line, and what is answered of the wait (R24)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bettercompute import sql
from bettercompute.states import ReservationState
from bettercompute.wire.waiting import Waiting
from reservations import trials
from reservations.models import Reservation

PLACES = sql.load(__package__, "places")


@dataclass(frozen=True, slots=True)
class Place:
    """Where one stands: 1 is tried first."""

    position: int
    length: int
    milli_ahead: int


def of(rows: Iterable[Reservation]) -> Mapping[str, Place]:
    """Where those stand that wait: one statement for all, and none where nobody waits."""
    waiting = [row for row in rows if row.state == ReservationState.PENDING]
    if not waiting:
        return {}
    found = PLACES.all(
        "of",
        ids=sorted(row.id for row in waiting),
        pool_ids=sorted({row.pool_id for row in waiting}),
    )
    return {key: Place(*place) for key, *place in found}


def waiting(row: Reservation, place: Place | None) -> Waiting | None:
    """What is answered of its wait; None where it does not wait (any more)."""
    if place is None:
        return None
    trial = trials.restore(row.waiting)
    estimate = trial.estimate if trial is not None and trial.estimate is not None else None
    if estimate is not None and not estimate.holds:
        estimate = None
    return Waiting(
        position=place.position,
        line_length=place.length,
        gpus_ahead=place.milli_ahead / 1_000,
        reasons=[] if trial is None else list(trial.reasons),
        tested_at=None if trial is None else trial.tested_ms,
        earliest_start=None if estimate is None else estimate.start_ms,
        earliest_tested_at=None if estimate is None else estimate.tested_ms,
    )
