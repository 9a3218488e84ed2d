"""Wake-ups through the broker: quick when it works, never missed when it does not (C1, C28).

A hint carries nothing but "look". A thread of its own sends it, so a slow or dead broker costs a
request nothing: the request only sets a flag. Many commits in a moment share one hint.
"""

import logging
import os
import threading

from django.conf import settings
from django.db import transaction

log = logging.getLogger(__name__)

# By name: whoever enqueues needs not know what a worker does with it.
LOOK = "bettercompute.coordination.tasks.look"
PAUSE_SECONDS = 0.02  # at most 50 hints a second and process
RETRY_SECONDS = 1.0  # after a failure; workers look every second anyway


def send_on_commit() -> None:
    """Have the workers look once this transaction has committed."""
    if settings.HINTS:
        transaction.on_commit(send, robust=True)


def send() -> None:
    """Have the workers look soon; returns at once."""
    _sender().wanted.set()


class Sender:
    """One thread that turns a flag into messages."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self._failed = False
        threading.Thread(target=self._run, name="hints", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.wanted.wait()
            self.wanted.clear()
            self._publish()
            # Commits in this pause only set the flag, and share the next message.
            threading.Event().wait(RETRY_SECONDS if self._failed else PAUSE_SECONDS)

    def _publish(self) -> None:
        # At first use, since most processes never send one, and Celery takes long to load.
        from bettercompute.celery import app

        try:
            app.send_task(LOOK, retry=False)
        except Exception as error:  # noqa: BLE001  # whatever the broker's client raises
            if not self._failed:
                log.warning("The broker is unreachable (%s); work goes on every second.", error)
            self._failed = True
        else:
            self._failed = False


_senders: dict[int, Sender] = {}
_starting = threading.Lock()


def _sender() -> Sender:
    # By process id: threads do not survive a fork.
    with _starting:
        process = os.getpid()
        if process not in _senders:
            _senders[process] = Sender()
        return _senders[process]
