"""The gateway's way to PostgreSQL: a few threads, each with a connection that it keeps (N2).

Nothing of the event loop ever waits for the database itself, and nobody who sleeps in a long poll
holds a connection. When the database is away, calls fail with UNAVAILABLE within seconds.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from django import db

from bettercompute import errors, outages

THREADS = 4
CALL_SECONDS_MAX = 10.0

P = ParamSpec("P")
T = TypeVar("T")


class Database:
    """Runs functions of the domain in threads with Django's connections."""

    def __init__(self, *, threads: int = THREADS) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="gateway-db")

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function answers. Raises: errors.Unavailable, and what the function raises."""
        call = partial(function, *args, **kwargs)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                # With this request's context: its id stands in what the function logs.
                here = contextvars.copy_context()
                return await loop.run_in_executor(self._pool, here.run, _call, call)
        except TimeoutError as error:
            raise errors.Unavailable("The database does not answer in time.") from error

    def close(self) -> None:
        """Close every thread's connection, then end the threads."""
        together = threading.Barrier(self._threads)
        done = [self._pool.submit(_close, together) for _ in range(self._threads)]
        for each in done:
            each.result(timeout=CALL_SECONDS_MAX)
        self._pool.shutdown(wait=True)


def _call(call: Callable[[], Any]) -> Any:
    # As Django does at the start of a request: drop a connection that broke or is too old.
    db.close_old_connections()
    try:
        return call()
    except db.Error as error:
        if not outages.is_outage(error):
            raise
        db.connection.close()
        raise errors.Unavailable from error


def _close(together: threading.Barrier) -> None:
    # No thread goes on before each has one of these jobs, so each closes its own connection.
    together.wait(timeout=CALL_SECONDS_MAX)
    db.connection.close()
