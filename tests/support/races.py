"""Crowds: many operations at once, each on one of a few real connections, and what came of each.

``sessions`` scripts an interleaving; here the order is left to the threads and the server.
"""

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection, connections

from bettercompute import errors, failpoints
from bettercompute.failpoints import Failpoint
from bettercompute.sql import Statements

GATE_SECONDS_MAX = 20.0


@dataclass(frozen=True, slots=True)
class Operation:
    """Something to do, by name."""

    name: str
    run: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operation answered or raised."""

    name: str
    answer: Any = None
    error: Exception | None = None

    @property
    def unexpected(self) -> bool:
        """Neither an answer nor one of the wire's refusals: a defect, or a deadlock."""
        refused = isinstance(self.error, errors.ApiError) and self.error.status < 500
        return self.error is not None and not refused

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.name}: ok"
        code = getattr(self.error, "code", type(self.error).__name__)
        return f"{self.name}: {code}"


def crowd(operations: Sequence[Operation], *, connections: int = 16) -> list[Outcome]:
    """Do these in this order, as many at a time as there are connections; answers all outcomes."""
    waiting: queue.SimpleQueue[Operation] = queue.SimpleQueue()
    for operation in operations:
        waiting.put(operation)
    outcomes: list[Outcome] = []  # appending is atomic
    threads = [
        threading.Thread(target=_work, args=(waiting, outcomes), name=f"crowd {number}")
        for number in range(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def tally(outcomes: Sequence[Outcome]) -> str:
    """How often what came of which operation, for a failure's message."""
    counts = Counter(map(str, outcomes))
    return "\n".join(f"  {number:5} {what}" for what, number in sorted(counts.items()))


def _work(waiting: "queue.SimpleQueue[Operation]", outcomes: list[Outcome]) -> None:
    try:
        while True:
            operation = waiting.get_nowait()
            try:
                outcomes.append(Outcome(operation.name, operation.run()))
            except Exception as error:  # noqa: BLE001  # an outcome of the race
                outcomes.append(Outcome(operation.name, error=error))
    except queue.Empty:
        connections.close_all()


@contextmanager
def meeting_at(point: Failpoint, *, parties: int) -> Iterator[None]:
    """Let so many threads wait for each other at a failpoint, the first time each comes there."""
    gate = threading.Barrier(parties)
    met = threading.local()

    def meet() -> None:
        if not getattr(met, "once", False):
            met.once = True
            gate.wait(timeout=GATE_SECONDS_MAX)

    failpoints.arm(point, meet)
    try:
        yield
    finally:
        failpoints.disarm()


def without(monkeypatch: pytest.MonkeyPatch, statements: Statements, name: str, guard: str) -> None:
    """Take a guard out of one statement: the negative control of the test that needs it."""
    text = statements.texts[name]
    assert guard in text, f"{statements.source} {name} has no {guard}"
    monkeypatch.setitem(statements.texts, name, text.replace(guard, ""))  # type: ignore[arg-type]


def deadlocks() -> int:
    """How many deadlocks the server has broken in this database so far."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        (number,) = cursor.fetchone()
        return int(number)
