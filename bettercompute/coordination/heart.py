"""A process's heartbeat: a thread of its own that says every few seconds that it works (C38, C39).

It never holds up what its process does: it has its own thread and its own connection. An outage of
the database only silences it, and the first beat after it tells that it is over.
"""

import logging
import threading
from collections.abc import Callable

from django.db import Error, connections

from bettercompute.coordination import heartbeats, reconnecting

log = logging.getLogger(__name__)

STOP_SECONDS_MAX = 2.0


class Heart:
    """Beats from ``start`` to ``stop``; one a process."""

    def __init__(
        self, beat: Callable[[], None], *, every_seconds: float = heartbeats.BEAT_SECONDS
    ) -> None:
        self._beat = beat
        self._every_seconds = every_seconds
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._away = False

    def start(self) -> None:
        """Begin to beat, at once."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Say that this process stops on purpose. A database that hangs is not waited for long."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=STOP_SECONDS_MAX)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._survive(self._beat)
                self._stopping.wait(self._every_seconds)
            self._survive(heartbeats.stop)
        finally:
            connections.close_all()

    def _survive(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Error as error:
            if not self._away:
                log.warning("The database is away (%s); the heart goes on.", error)
            self._away = True
            reconnecting.drop_if_broken()
        except Exception:
            # The edge of a loop: a mistake in one beat must not end them.
            log.exception("a heartbeat failed")
        else:
            if self._away:
                log.info("The database is back.")
            self._away = False
