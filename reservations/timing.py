"""When a reservation begins and ends, read from its answer. Pure."""

from dataclasses import dataclass
from datetime import datetime

from bettercompute import clock, durations
from bettercompute.wire.reservations import Reservation


@dataclass(frozen=True, slots=True)
class Timing:
    """The window it has, if any yet, and what was asked for."""

    start: datetime | None
    end: datetime | None
    asked: datetime | None
    duration_ms: int

    @property
    def length_ms(self) -> int:
        """How long its window is, extended or cut short; without one, what was asked for."""
        if self.start is None or self.end is None:
            return self.duration_ms
        return clock.to_ms(self.end) - clock.to_ms(self.start)


def of(shown: Reservation) -> Timing:
    """As the answer tells it."""
    during, asked = shown.during, shown.request.get("start")
    return Timing(
        start=clock.from_ms(during.start) if during else None,
        end=clock.from_ms(during.end) if during else None,
        asked=clock.from_ms(asked) if isinstance(asked, int) else None,
        duration_ms=durations.parse(shown.request["duration"]),
    )
