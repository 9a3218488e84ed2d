"""Whoever waits for a pool tries again, the first in line first (R13).

How depends on the pool's placer as it is now, so an operator may change that while some wait.
"""

from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.runner import Done, Outcome
from pools import catalogue
from reservations.placing import batches, estimates, pending


def reconcile(key: str, fence: Fence) -> Outcome:
    """Let the pending reservations of a pool try again."""
    access = catalogue.as_itself(key)
    if access is None:
        return Done()
    if access.queued:
        outcome = batches.place_line(access, fence)
        estimates.wake_first(key, fence)  # nobody in a queue looks again for itself
        return outcome
    return pending.try_all(key, fence)
