"""The product's wiring, and what tests add: a sink of events, and a worker that kills itself.

``DEPLOYMENT_DIES_AT`` names a failpoint: the process ends there by SIGKILL, the first time that it
comes by.
"""

import os
import signal
from functools import partial

from django.conf import settings
from django.db import connection

from bettercompute import failpoints, wiring
from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.worker import Job
from bettercompute.failpoints import Failpoint
from bettercompute.wiring import companions, reconcilers
from outbox import dispatch
from tests.support.deployment import delivered, terms
from tests.support.deployment.delivered import FileSink

__all__ = ["companions", "reconcilers", "ticks"]

SINK = "file"


def ticks() -> dict[str, Job]:
    """The product's periodic jobs, and the delivery to our sink."""
    sink = FileSink(delivered.path(settings.ENV.bettercompute_data))
    job = Job(wiring.DISPATCH_SECONDS, partial(_deliver, sink))
    if not connection.in_atomic_block:  # a self-check only wants to know their names
        terms.record()
    return {**wiring.ticks(), dispatch.lease_name(SINK): job}


def _deliver(sink: FileSink, fence: Fence) -> int:
    return dispatch.drain(SINK, sink, fence=fence)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if point := os.environ.get("DEPLOYMENT_DIES_AT"):
    failpoints.arm(Failpoint(point), _die)
