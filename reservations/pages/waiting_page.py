"""Where a reservation stands in line, as its page tells it. Pure."""

from dataclasses import dataclass
from datetime import datetime, tzinfo

from bettercompute import clock
from bettercompute.pages import moments, parts
from bettercompute.wire.waiting import Waiting
from reservations.pages import preview_panel
from reservations.pages.preview_panel import Reason


@dataclass(frozen=True, slots=True)
class Standing:
    """Its place, what is missing, and when it could start at the earliest."""

    place: str
    start: str
    reasons: tuple[Reason, ...]
    tested: moments.Moment | None

    @property
    def news(self) -> tuple[object, ...]:
        """What is worth drawing again; that it was tested once more is not."""
        return self.place, self.start, self.reasons


def standing(waiting: Waiting | None, *, now: datetime, zone: tzinfo) -> Standing | None:
    """None where it does not wait."""
    if waiting is None:
        return None
    tested = waiting.tested_at
    return Standing(
        place=place(waiting),
        start=_start(waiting, now=now, zone=zone),
        reasons=tuple(preview_panel.reason(each, now=now, zone=zone) for each in waiting.reasons),
        tested=None
        if tested is None
        else moments.moment(clock.from_ms(tested), now=now, zone=zone),
    )


def place(waiting: Waiting) -> str:
    """``3 of 7; those before it ask for 12 GPUs``."""
    if waiting.line_length == 1:
        return "It is the only one that waits in this pool."
    told = f"{waiting.position:,} of {waiting.line_length:,}"
    if waiting.position == 1:
        return f"{told}: it is tried first."
    ahead = parts.number(waiting.gpus_ahead)
    return f"{told}; those before it ask for {ahead} {'GPU' if ahead == '1' else 'GPUs'}."


def _start(waiting: Waiting, *, now: datetime, zone: tzinfo) -> str:
    if waiting.earliest_start is not None:
        start = moments.text(clock.from_ms(waiting.earliest_start), now=now, zone=zone)
        behind = "" if waiting.position == 1 else ", if nobody before it in line takes that"
        return f"At the earliest {start}{behind}."
    if waiting.earliest_tested_at is not None:
        return "No start was found at which it fits beside what is booked now."
    return ""
