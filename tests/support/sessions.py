"""Interleavings, as steps of named sessions (the form of PostgreSQL's isolation specs).

Each session is a thread with a database connection of its own::

    with sessions.opened("holder", "rival") as (holder, rival):
        holder.begin()
        holder.run(lambda: change(...))
        step = rival.start(lambda: change(...))   # expected to wait for a row lock
        step.must_block()
        holder.commit()
        assert step.result() == …

Tests that use it need ``@pytest.mark.django_db(transaction=True)``: what one session committed, the
others must see.
"""

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

from django.db import connection, connections, transaction

WAIT_SECONDS_MAX = 30.0
POLL_SECONDS = 0.005

_numbers = itertools.count(1)


class Rollback(Exception):
    """Leaves a transaction without committing it."""


class Step:
    """One step of a session, perhaps still under way."""

    def __init__(self, session: "Session", future: "Future[Any]") -> None:
        self._session = session
        self._future = future

    def result(self) -> Any:
        """What the step answered; raises what it raised."""
        return self._future.result(timeout=WAIT_SECONDS_MAX)

    def done(self) -> bool:
        """Whether it has ended."""
        return self._future.done()

    def must_block(self) -> None:
        """Wait until the step waits for a lock; fail if it ends instead."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < deadline:
            if self._future.done():
                outcome = self._future.exception() or self._future.result()
                raise AssertionError(f"{self._session.name} did not block: {outcome!r}")
            if _waits_for_a_lock(self._session.application):
                return
            threading.Event().wait(POLL_SECONDS)
        raise AssertionError(f"{self._session.name} neither blocked nor ended")


class Session:
    """A thread with its own connection that does one step at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.backend = 0  # of its connection; behind a pooler, a number of the pooler's
        self.application = f"{name[:40]} {next(_numbers)}"
        self._steps: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._open = ExitStack()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        self.run(self._connect)

    def start(self, step: Callable[[], Any]) -> Step:
        """Begin a step and do not wait for it."""
        future: Future[Any] = Future()
        self._steps.put((step, future))
        return Step(self, future)

    def run(self, step: Callable[[], Any]) -> Any:
        """Do a step to its end."""
        return self.start(step).result()

    def enter(self, context: AbstractContextManager[Any]) -> None:
        """Enter a context in this session and stay in it: ``fenced(lease)``, say."""
        self.run(lambda: self._open.enter_context(context))

    def begin(self) -> None:
        """Open a transaction."""
        self.enter(transaction.atomic())

    def commit(self) -> None:
        """Leave what was entered, so that it commits."""
        self.run(self._leave)

    def rollback(self) -> None:
        """Leave what was entered by an exception, so that it rolls back."""
        self.run(lambda: self._leave(Rollback()))

    def sql(self, text: str, *parameters: Any) -> list[Any]:
        """Run one statement and answer its rows."""

        def execute() -> list[Any]:
            with connection.cursor() as cursor:
                cursor.execute(text, parameters or None)
                return cursor.fetchall() if cursor.description else []

        rows: list[Any] = self.run(execute)
        return rows

    def close(self) -> None:
        """Roll back what is open and end the thread."""
        self.start(lambda: self._leave(Rollback()))
        self._steps.put(None)
        self._thread.join(timeout=WAIT_SECONDS_MAX)

    def _connect(self) -> None:
        # A name of its own, by which the server and a pooler know whose statement it is.
        options = {**connection.settings_dict["OPTIONS"], "application_name": self.application}
        connection.settings_dict = {**connection.settings_dict, "OPTIONS": options}
        connection.ensure_connection()
        self.backend = connection.connection.info.backend_pid

    def _leave(self, error: Exception | None = None) -> None:
        leaving, self._open = self._open, ExitStack()
        with suppress(Rollback):
            leaving.__exit__(type(error) if error else None, error, None)

    def _work(self) -> None:
        while (item := self._steps.get()) is not None:
            step, future = item
            try:
                future.set_result(step())
            except BaseException as error:  # noqa: BLE001  # handed to whoever asks for the result
                future.set_exception(error)
        connections.close_all()


@contextmanager
def opened(*names: str) -> Iterator[tuple[Session, ...]]:
    """Sessions of these names, closed at the end."""
    made = tuple(Session(name) for name in names)
    try:
        yield made
    finally:
        for session in made:
            session.close()


def race(*contenders: Callable[[], Any]) -> list[Any]:
    """Run functions at the same moment on connections of their own; answers results or errors."""
    gate = threading.Barrier(len(contenders))
    with opened(*(f"contender {number}" for number in range(len(contenders)))) as racers:

        def at_once(contender: Callable[[], Any]) -> Callable[[], Any]:
            def step() -> Any:
                gate.wait(timeout=WAIT_SECONDS_MAX)
                try:
                    return contender()
                except Exception as error:  # noqa: BLE001  # an outcome of the race
                    return error

            return step

        steps = [r.start(at_once(c)) for r, c in zip(racers, contenders, strict=True)]
        return [step.result() for step in steps]


def _waits_for_a_lock(application: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM pg_stat_activity"
            " WHERE application_name = %s AND cardinality(pg_blocking_pids(pid)) > 0)",
            [application],
        )
        (waits,) = cursor.fetchone()
        return bool(waits)
