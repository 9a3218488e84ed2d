"""What metrics say of events on their way out."""

import importlib
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from bettercompute.telemetry.gauges import Gauge, Look
from outbox import dispatch


def lag() -> Iterable[Gauge]:
    """How far each sink is behind, and what holds all of them back."""
    events = Gauge("outbox_lag_events", "Events that a sink has yet to take.", ("sink",))
    seconds = Gauge("outbox_lag_seconds", "How old the oldest of these is.", ("sink",))
    wiring: Any = importlib.import_module(settings.WIRING)
    prefix = dispatch.lease_name("")
    for job in wiring.ticks():
        if job.startswith(prefix):
            events.add(0, job.removeprefix(prefix))
            seconds.add(0, job.removeprefix(prefix))
    for sink, count, age in dispatch.lag():
        events.add(count, sink)
        seconds.add(age.total_seconds(), sink)
    stall = Gauge(
        "outbox_stall_seconds", "Age of the open transaction that holds every reader back."
    )
    found = dispatch.stall()
    stall.add(0 if found is None else found.age.total_seconds())
    return events, seconds, stall


ALL: tuple[Look, ...] = (lag,)
