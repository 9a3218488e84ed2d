"""Wake-ups through the broker: quick when it works, never missed when it does not (C1, C28).

A hint carries nothing but "look", or "tell" where there are events to tell others of. A thread of
its own sends it, so a slow or dead broker costs a request nothing: the request only sets a flag.
Many commits in a moment share one hint.
"""

import logging
import os
import threading

from django.conf import settings
from django.db import transaction

log = logging.getLogger(__name__)

# By name: whoever enqueues needs not know what a worker does with it.
LOOK = "bettercompute.coordination.tasks.look"
TELL = "bettercompute.coordination.tasks.tell"
PAUSE_SECONDS = {LOOK: 0.02, TELL: 0.1}  # between two hints of a process
RETRY_SECONDS = 1.0  # after a failure; workers look every second anyway


def send_on_commit() -> None:
    """Have the workers look once this transaction has committed."""
    if settings.HINTS:
        transaction.on_commit(send, robust=True)


def tell_on_commit() -> None:
    """Have the workers tell of events once this transaction has committed."""
    if settings.HINTS:
        transaction.on_commit(_tell, robust=True)


def send() -> None:
    """Have the workers look soon; returns at once."""
    _sender(LOOK).wanted.set()


def _tell() -> None:
    _sender(TELL).wanted.set()


class Sender:
    """One thread that turns a flag into messages."""

    def __init__(self, task: str = LOOK) -> None:
        self.wanted = threading.Event()
        self._task = task
        self._failed = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hints", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, once what is being sent is. A process's own go on until it ends."""
        self._over.set()
        self.wanted.set()
        self._thread.join()

    def _run(self) -> None:
        while self.wanted.wait() and not self._over.is_set():
            self.wanted.clear()
            self._publish()
            # Commits in this pause only set the flag, and share the next message.
            self._over.wait(self._pause())

    def _pause(self) -> float:
        return RETRY_SECONDS if self._failed else PAUSE_SECONDS[self._task]

    def _publish(self) -> None:
        # At first use, since most processes never send one, and Celery takes long to load.
        from bettercompute.celery import app

        try:
            app.send_task(self._task, retry=False)
        except Exception as error:  # noqa: BLE001  # whatever the broker's client raises
            if not self._failed:
                log.warning("The broker is unreachable (%s); work goes on every second.", error)
            self._failed = True
        else:
            self._failed = False


_senders: dict[tuple[int, str], Sender] = {}
_starting = threading.Lock()


def _sender(task: str) -> Sender:
    # By process id: threads do not survive a fork.
    with _starting:
        key = (os.getpid(), task)
        if key not in _senders:
            _senders[key] = Sender(task)
        return _senders[key]
