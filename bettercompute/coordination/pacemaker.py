"""Celery's beat, with a heart: while it ticks, it says so every five seconds (C39).

It ticks in its main thread, which a slow broker may hold; the heart has a thread of its own, so
that a slow database never holds a tick.
"""

import time
from typing import Any

from celery.beat import Scheduler

from bettercompute.coordination import heartbeats
from bettercompute.coordination.heart import Heart
from bettercompute.coordination.heartbeats import Role

TICKED_SECONDS = 10.0  # not ticked for so long: no heartbeat


class BeatingScheduler(Scheduler):  # type: ignore[misc]  # Celery has no types
    """Celery's own scheduler and nothing else, but for the heart."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._ticked_at = time.monotonic()
        self._heart = Heart(self._beat)
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
        self._heart.stop()
        super().close()

    def _beat(self) -> None:
        if time.monotonic() - self._ticked_at < TICKED_SECONDS:
            heartbeats.beat(Role.BEAT)
