"""All chance and all time of the product come from here while a simulation runs."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

from bettercompute import clock, ids
from bettercompute.agent import session as agent_session
from bettercompute.coordination import holdings, workqueue
from nodes import enrollment, sessions
from nodes.gateway import database, service
from pools import chance as planning

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class Time:
    """Simulated time, in the database and everywhere else."""

    def __init__(self) -> None:
        self.now = START

    def seconds(self) -> float:
        """As a monotonic clock tells it."""
        return 1_000.0 + (self.now - START).total_seconds()

    def advance(self, seconds: float) -> None:
        """Let time pass, for everybody at once."""
        self.now += timedelta(milliseconds=round(seconds * 1_000))
        clock.set_sim_clock(self.now)


class Chance:
    """The one source of chance; the scheduler seeds it anew for each step."""

    def __init__(self, time: Time) -> None:
        self.random = random.Random(0)
        self._time = time

    def number(self) -> int:
        """128 bits for a new id."""
        return (clock.to_ms(self._time.now) << 80) | self.random.getrandbits(80)

    def token_urlsafe(self, size: int) -> str:
        """As ``secrets`` would."""
        return self.random.randbytes(size).hex()


class InlineDatabase:
    """A gateway's way to the database without threads of its own: the strand's connection."""

    async def run(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """What the function answers; other calls of the gateway may come first."""
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)  # to Django, this is one of the gateway's own threads
        try:
            return database._call(partial(function, *args, **kwargs))
        finally:
            asyncio._set_running_loop(loop)

    def close(self) -> None:
        """The strand closes its connection itself."""


@contextmanager
def controlled(time: Time, chance: Chance) -> Iterator[None]:
    """Let the product draw its chance and read its time here."""
    instead: list[tuple[ModuleType, str, object]] = [
        (planning, "RNG", chance.random),
        (workqueue, "random", chance.random),
        (sessions, "secrets", chance),
        (enrollment, "secrets", chance),
        (service, "Database", InlineDatabase),
        # Nobody else runs meanwhile, so there is nothing to wait for.
        (holdings, "TIDYING_SECONDS_MAX", 0.0),
        # Asking the database each time would double the number of statements; it says the same.
        (clock, "_ask_database", lambda: time.now),
        (
            agent_session,
            "time",
            SimpleNamespace(
                monotonic=time.seconds, time_ns=lambda: clock.to_ms(time.now) * 1_000_000
            ),
        ),
    ]
    ids.draw_from(chance.number)
    patches = [mock.patch.object(module, name, value) for module, name, value in instead]
    try:
        for patch in patches:
            patch.start()
        yield
    finally:
        for patch in patches:
            patch.stop()
        ids.draw_from(None)
