"""Celery's beat, with a heart: while it ticks, it says so every five seconds (C39).

It ticks in its main thread, which a slow broker may hold; the heart has a thread of its own, so
that a slow database never holds a tick.
"""

import logging
import threading
import time
from typing import Any

from celery.beat import Scheduler
from django.db import Error, connections

from bettercompute.coordination import heartbeats, reconnecting

log = logging.getLogger(__name__)

ROLE = "beat"
TICKED_SECONDS = 10.0  # not ticked for so long: no heartbeat


class BeatingScheduler(Scheduler):  # type: ignore[misc]  # Celery has no types
    """Celery's own scheduler and nothing else, but for the heart."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._ticked_at = time.monotonic()
        self._stopping = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="heart", daemon=True)
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        """Called once, when the beat starts."""
        super().setup_schedule()
        self._heart.start()

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        """Send what is due; answers in how many seconds to come again."""
        self._ticked_at = time.monotonic()
        return super().tick(*args, **kwargs)

    def close(self) -> None:
        """Stop cleanly: it is known at once that this beat is gone."""
        self._stopping.set()
        if self._heart.is_alive():
            self._heart.join(timeout=heartbeats.BEAT_SECONDS)
        super().close()

    def _beat(self) -> None:
        while True:
            if time.monotonic() - self._ticked_at < TICKED_SECONDS:
                _survive(heartbeats.beat, ROLE)
            if self._stopping.wait(heartbeats.BEAT_SECONDS):
                break
        _survive(heartbeats.stop)
        connections.close_all()


def _survive(write: Any, *args: Any) -> None:
    try:
        write(*args)
    except Error as error:
        log.warning("The database is unreachable (%s); the beat goes on.", error)
        reconnecting.drop_if_broken()
