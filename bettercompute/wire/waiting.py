"""What a pending reservation waits for, on the wire (R24)."""

from bettercompute.wire.base import AnswerModel
from bettercompute.wire.reasons import Reason


class Waiting(AnswerModel):
    """Where a pending reservation stands in its pool's line, why it waits, and until when."""

    #: its place by priority, then age: 1 is tried first
    position: int
    #: how many wait in this pool, itself included
    line_length: int
    #: what those before it ask for together
    gpus_ahead: float
    #: why the last try did not place it, the nearest to fitting first; `until`: what blocks it ends
    reasons: list[Reason]
    #: when the last try was; null before the first one
    tested_at: int | None
    #: The first start at which it would fit beside what is booked now. Those before it in the line
    #: hold nothing yet and are not counted, so it may be later. Null where none is known (yet).
    earliest_start: int | None
    #: when that was worked out; null where it has not been since the reasons last changed
    earliest_tested_at: int | None
