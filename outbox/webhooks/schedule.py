"""When a delivery is tried again, and when an endpoint is given up. Pure.

Two paces, since two things may be wrong. A *delivery* that was not taken is tried ten times in
about three days. An *endpoint* that took nothing lately is called again only after a pause, one
call at a time, however many deliveries wait for it: while it is down they cost it and us nothing.
"""

from collections.abc import Sequence
from datetime import timedelta

#: Between one try and the next.
DELAYS: Sequence[timedelta] = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
TRIES_MAX = len(DELAYS) + 1
JITTER = 0.1  # at most so much longer, so that what failed together does not return together
RETRY_AFTER_MAX = timedelta(hours=24)

#: An endpoint that took nothing for so long is disabled; the last try of what failed first comes
#: later than this.
DISABLE_AFTER = timedelta(days=3)

PAUSE_MAX = timedelta(minutes=1)


def next_try(tries: int, *, luck: float, retry_after: timedelta | None = None) -> timedelta | None:
    """How long after the ``tries``-th try the next one comes; None: there is none.

    ``luck`` is any number of [0, 1): it spreads them. What the receiver asks for is waited for,
    within bounds, but never makes a try come earlier.
    """
    assert tries >= 1
    if tries >= TRIES_MAX:
        return None
    wait = DELAYS[tries - 1] * (1 + JITTER * luck)
    return wait if retry_after is None else max(wait, min(retry_after, RETRY_AFTER_MAX))


def pause(failures: int, *, retry_after: timedelta | None = None) -> timedelta:
    """How long an endpoint is left alone after so many attempts in a row that failed."""
    wait = min(timedelta(seconds=2 ** min(failures, 10)), PAUSE_MAX)
    return wait if retry_after is None else max(wait, min(retry_after, RETRY_AFTER_MAX))
