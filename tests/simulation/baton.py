"""Threads of which exactly one runs at a time, so that a history is the same each time.

A *strand* is one thread of a simulated process. Whoever schedules hands it the baton for a number
of *points*; a point is a place between two transactions where the strand may hand it back. Between
hand-overs nobody else runs, so what happens depends on nothing but who was chosen.
"""

import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db import connections

HANG_SECONDS = 120.0
TO_THE_END = 1_000_000


class Died(SystemExit):
    """The process was killed here: nothing below catches this, and nothing after it runs."""


class Hung(AssertionError):
    """A strand neither ended nor handed back: it waits for what only another strand can give."""


class Fault(StrEnum):
    """What goes wrong at one statement, commit or failpoint."""

    DIE_BEFORE = "dies before"
    DIE_AFTER = "dies after"
    CANCELLED = "cancelled"  # the server refuses this one statement
    LOST_BEFORE = "connection lost before"
    LOST_AFTER = "connection lost after"  # it ran, and nobody knows


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault at the n-th statement from now."""

    fault: Fault
    at: int


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of an operation so far."""

    paused: bool = False
    answer: Any = None
    error: BaseException | None = None

    @property
    def died(self) -> bool:
        """Whether the process was killed."""
        return isinstance(self.error, Died)


_here = threading.local()


def current() -> "Strand | None":
    """The strand that this thread is."""
    return getattr(_here, "strand", None)


class Strand:
    """One thread that runs only while it has the baton."""

    def __init__(self, name: str, enter: Callable[["Strand"], None]) -> None:
        self.name = name
        self.doomed = False  # killed: every further step of its operation fails
        self.paused = False
        self.wrote = False  # since the scheduler last looked
        self.faults_met: list[str] = []
        self._enter = enter
        self._operation: Callable[[], Any] | None = None
        self._points = 0
        self._planned: Planned | None = None
        self._statements = 0
        self._ran = Ran()
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def begin(self, operation: Callable[[], Any]) -> None:
        """Have an operation ready; ``resume`` runs it."""
        assert not self.paused
        self._operation = operation
        self.doomed = False

    def resume(self, points: int = TO_THE_END, planned: Planned | None = None) -> Ran:
        """Hand over the baton, and wait until it comes back."""
        self._points, self._planned, self._statements = points, planned, 0
        self._go.release()
        if not self._back.acquire(timeout=HANG_SECONDS):
            frames = sys._current_frames()
            stack = traceback.format_stack(frames[self._thread.ident or 0])
            raise Hung(f"{self.name} hangs:\n{''.join(stack[-12:])}")
        return self._ran

    def kill(self) -> None:
        """End the operation under way, if any, where it is."""
        if self.paused:
            self.doomed = True
            self.resume()

    def close(self) -> None:
        """End the thread."""
        self.kill()
        self._operation = None
        self._go.release()
        self._thread.join(timeout=10)

    def point(self, *, weight: int = 1) -> None:
        """Between two transactions: the baton may go to somebody else here."""
        self._die_if_doomed()
        self._points -= weight
        if self._points > 0:
            return
        self._hand_back(Ran(paused=True))
        self._die_if_doomed()

    def fault(self) -> Fault | None:
        """Count one statement, commit or failpoint; answers what goes wrong at it."""
        self._die_if_doomed()
        self._statements += 1
        planned = self._planned
        if planned is None or planned.at != self._statements:
            return None
        self._planned = None
        self.faults_met.append(planned.fault)
        return planned.fault

    def die(self) -> None:
        """Be killed: the database sees the connection go, memory is lost."""
        self.doomed = True
        connections["default"].sever()
        raise Died

    def _die_if_doomed(self) -> None:
        if self.doomed:
            self.die()

    def _hand_back(self, ran: Ran) -> None:
        self._ran = ran
        self.paused = ran.paused
        self._back.release()
        self._go.acquire()

    def _live(self) -> None:
        _here.strand = self
        self._enter(self)
        self._go.acquire()
        while self._operation is not None:
            operation, self._operation = self._operation, None
            self._hand_back(self._outcome(operation))
        connections.close_all()

    def _outcome(self, operation: Callable[[], Any]) -> Ran:
        try:
            return Ran(answer=operation())
        except Died as error:
            return Ran(error=error)
        except Exception as error:  # noqa: BLE001  # an outcome of the operation
            return Ran(error=error)
