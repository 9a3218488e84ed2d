"""What the workers of fault tests run: one reconciler that leaves a trace, in simulated time."""

import os
import time

from bettercompute import clock
from bettercompute.coordination import worker
from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.runner import Done, Outcome, Reconcile
from bettercompute.coordination.worker import Companion, Job
from outbox import events

# The worker is a process of its own: tell it that the database's clock is the test's.
clock.follow_sim_clock()
# So long without a message, and it looks by itself.
worker.QUIET_SECONDS = float(os.environ.get("QUIET_SECONDS", worker.QUIET_SECONDS))


def probe(key: str, fence: Fence) -> Outcome:
    """Write an event; a key that starts with ``hang`` then stays in its transaction for ever."""
    with fence():
        events.publish(
            "pool.created",
            tenant_id=str(os.getpid()),
            subject=f"pool/{key}",
            data={"poolId": key},
        )
        while key.startswith("hang") and os.environ.get("PROBE_HANGS"):
            time.sleep(0.1)
    return Done()


def reconcilers() -> dict[str, Reconcile]:
    """As bettercompute.wiring."""
    return {"probe": probe}


def companions() -> list[Companion]:
    """As bettercompute.wiring."""
    return []


def ticks() -> dict[str, Job]:
    """As bettercompute.wiring."""
    return {}
