"""Signals, delivered where the code waits.

A handler that raises can strike between a fork and the note of the child's pid, and the child is
never stopped. So handlers only remember, and every wait of the embedded deployment goes through
`Interruption.pause`, which raises `StopRequested` at a point where nothing is half done. The end of
a child wakes a pause early.
"""

import os
import select
import signal
from types import FrameType

from bettercompute.embedded.failures import StopRequested

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """The stop signals this process has received, and waits that end when one comes."""

    def __init__(self) -> None:
        self.received: list[signal.Signals] = []
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)

    def listen(self) -> None:
        """Take over the stop signals; must be called in the main thread.

        A hang-up that the caller ignores (nohup) stays ignored.
        """
        signal.set_wakeup_fd(self._writable, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._remember)
        signal.signal(signal.SIGCHLD, _wake)

    def pause(self, seconds: float) -> None:
        """Wait at most this long, less when a child ends.

        Raises:
            StopRequested: a stop signal came, now or before.
        """
        if not self.received:
            self.rest(seconds)
        if self.received:
            raise StopRequested

    def rest(self, seconds: float) -> None:
        """Wait like `pause`, for callers that are stopping already."""
        select.select([self._readable], [], [], max(seconds, 0))
        try:
            os.read(self._readable, 4096)
        except BlockingIOError:
            return

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.received.append(signal.Signals(number))


def _wake(number: int, frame: FrameType | None) -> None:
    """Let SIGCHLD reach the wake-up pipe: Python writes to it only for handled signals."""
