"""The stations of a reservation's life, as its page lists them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo

from bettercompute import clock
from bettercompute.pages import chips, moments, spans
from bettercompute.states import ReservationState as S
from bettercompute.wire.reservations import Reservation
from reservations import timing


@dataclass(frozen=True, slots=True)
class Life:
    """When a reservation passed the stations that its answer does not tell."""

    placed_at: datetime | None = None
    bound_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A station of a reservation's life; ``phase`` is done, now, later or bad."""

    label: str
    phase: str
    at: moments.Moment | None
    hint: str = ""


_REACHED: Mapping[S, int] = {
    S.DRAFT: 0,
    S.AWAITING_CONFIRMATION: 0,
    S.PENDING: 1,
    S.PLACED: 1,
    S.BINDING: 2,
    S.ACTIVE: 3,
}


def steps(shown: Reservation, life: Life, *, now: datetime, zone: tzinfo) -> list[Step]:
    """The stations passed, the present one, and those ahead (none once it is over)."""

    def at(instant: datetime | None) -> moments.Moment | None:
        return moments.moment(instant, now=now, zone=zone) if instant else None

    times = timing.of(shown)
    created = clock.from_ms(shown.created_at)
    if shown.state in chips.OVER:
        passed = [
            ("Requested", created),
            ("Placed", life.placed_at),
            ("Binding", times.start if life.bound_at else None),
            ("Active", life.bound_at),
        ]
        phase = "bad" if shown.state in (S.DENIED, S.FAILED) else "done"
        last = Step(chips.of(shown).label, phase, at(life.ended_at))
        return [*(Step(label, "done", at(instant)) for label, instant in passed if instant), last]
    stations = [
        ("Requested", created, ""),
        ("Placed", life.placed_at, "as soon as it fits"),
        ("Binding", times.start or times.asked, "at the start"),
        ("Active", life.bound_at, "seconds after the start"),
        ("End", times.end, spans.text(times.duration_ms) + " later"),
    ]
    if shown.state is S.PENDING:
        stations[1] = ("Waiting for devices", None, "placed as soon as they are free")
        if chips.is_hopeless(shown):
            stations[1] = ("Not placed", None, "not unless the pool gets other nodes")
    reached = _REACHED[shown.state]
    return [
        Step(label, _phase(number, reached), at(instant), hint)
        for number, (label, instant, hint) in enumerate(stations)
    ]


def _phase(number: int, reached: int) -> str:
    if number == reached:
        return "now"
    return "done" if number < reached else "later"
