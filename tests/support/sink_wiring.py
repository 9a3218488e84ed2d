"""Several sinks for workers of a fault test, in simulated time; ``SINKS_IN`` is where they write.

``steady`` and ``fragile`` write what they are told to a file each. ``fragile`` hangs behind a write
while there is a file ``hang``: told, and not yet remembered. ``broken`` always refuses.
"""

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bettercompute import clock
from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.runner import Reconcile
from bettercompute.coordination.worker import Companion, Job
from outbox import dispatch
from outbox.dispatch import Sink
from outbox.reader import EventRow
from tests.support.deployment.delivered import FileSink

# The worker is a process of its own: tell it that the database's clock is the test's.
clock.follow_sim_clock()

PLACE = Path(os.environ["SINKS_IN"])


class Fragile:
    """Writes, then may hang for ever."""

    def deliver(self, events: Sequence[EventRow]) -> None:
        FileSink(PLACE / "fragile").deliver(events)
        while (PLACE / "hang").exists():
            time.sleep(0.05)


class Broken:
    """Refuses everything."""

    def deliver(self, events: Sequence[EventRow]) -> None:
        raise ConnectionError("the sink is down")


def reconcilers() -> dict[str, Reconcile]:
    """As bettercompute.wiring."""
    return {}


def companions() -> list[Companion]:
    """As bettercompute.wiring."""
    return []


def ticks() -> dict[str, Job]:
    """One job a sink; the broken one goes first, so that it could stop the others."""
    sinks: dict[str, Sink] = {
        "broken": Broken(),
        "fragile": Fragile(),
        "steady": FileSink(PLACE / "steady"),
    }
    return {
        dispatch.lease_name(sink_id): Job(0.0, partial(_deliver, sink_id, sink))
        for sink_id, sink in sinks.items()
    }


def _deliver(sink_id: str, sink: Sink, fence: Fence) -> int:
    return dispatch.drain(sink_id, sink, fence=fence)
