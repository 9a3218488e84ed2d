"""News for agents that wait (N6): one query a fifth of a second, however many of them wait.

While nobody waits, nothing is asked. A long poll that begins after its agent's state was read and
before the next query misses nothing: the query compares with what the agent knows.
"""

import asyncio
import logging

from bettercompute import errors
from bettercompute.web import lifetime
from nodes import sessions
from nodes.gateway.database import Database
from nodes.gateway.live import Live, LiveSession
from nodes.sessions import Waiting

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
OUTAGE_POLL_SECONDS = 1.0


class Watch:
    """Wakes long polls."""

    def __init__(self, live: Live, database: Database) -> None:
        self._live = live
        self._database = database
        self._somebody_waits = asyncio.Event()
        self._known: dict[asyncio.Event, int] = {}
        self._stopping = False

    async def wait(self, session: LiveSession, *, generation: int, seconds: float) -> bool:
        """Sleep until the node is no longer at this generation; False where time ran out first."""
        if self._stopping or lifetime.is_stopping():
            return False
        waiter = asyncio.Event()
        session.waiters.add(waiter)
        self._known[waiter] = generation
        self._somebody_waits.set()
        try:
            async with asyncio.timeout(seconds):
                await waiter.wait()
        except TimeoutError:
            return False
        finally:
            session.waiters.discard(waiter)
            del self._known[waiter]
        return True

    def stop(self) -> None:
        """Let everybody answer now, and nobody wait any more."""
        self._stopping = True
        self._live.wake_all()

    async def run(self) -> None:
        """Look for news until cancelled."""
        while True:
            await self._somebody_waits.wait()
            pause = POLL_SECONDS
            if lifetime.is_stopping():
                # The server waits for open requests before it tells the application.
                self.stop()
            try:
                await self.look()
            except errors.Unavailable:
                pause = OUTAGE_POLL_SECONDS
            except Exception:
                # The edge of a loop: without it agents would only hear at their time-outs.
                log.exception("Looking for news failed")
                pause = OUTAGE_POLL_SECONDS
            await asyncio.sleep(pause)

    async def look(self) -> None:
        """Ask once, and wake those for whom there is news."""
        waiting = self._live.waiting()
        if not waiting:
            self._somebody_waits.clear()
            return
        by_node = {session.node_id: session for session in waiting}
        asked = [
            Waiting(session.node_id, self._known[waiter], session.epoch)
            for session in waiting
            for waiter in session.waiters
        ]
        for each in await self._database.run(sessions.news, asked):
            session = by_node[each.node_id]
            if each.epoch != session.epoch:
                self._live.supersede(each.node_id, epoch=each.epoch)
            for waiter in session.waiters:
                if self._known[waiter] != each.generation:
                    waiter.set()
