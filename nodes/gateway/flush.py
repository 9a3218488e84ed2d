"""What a gateway tells the database by itself: ages, that it beats, and that it holds its lease.

The heartbeat follows a flush that worked, so a gateway that beats has told what it knows: after an
outage no node is judged before that (C38).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from bettercompute import errors
from bettercompute.coordination import heartbeats, leases, owner
from bettercompute.coordination.leases import Lease
from nodes import sessions
from nodes.gateway.database import Database
from nodes.gateway.live import Live

log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
RENEW_SECONDS = 5.0
LEASE_SECONDS = 20  # C31
ROLE = "gateway"


class Flush:
    """Keeps the database told."""

    def __init__(self, live: Live, database: Database) -> None:
        self.gateway_id = owner.OWNER
        self._live = live
        self._database = database
        self._lease: Lease | None = None
        self._beaten_at = float("-inf")
        self._away = False

    async def run(self) -> None:
        """Tell the database every two seconds until cancelled; an outage only delays it."""
        while True:
            await self._survive(self.turn)
            await asyncio.sleep(FLUSH_SECONDS)

    async def turn(self) -> None:
        """Flush ages; renew lease and heartbeat when it is time."""
        await self.flush()
        self._live.forget_silent()
        if self._live.monotonic() - self._beaten_at >= RENEW_SECONDS - FLUSH_SECONDS / 2:
            self._lease = await self._database.run(
                leases.take, self.lease_name, ttl_seconds=LEASE_SECONDS
            )
            await self._database.run(heartbeats.beat, ROLE)
            self._beaten_at = self._live.monotonic()

    async def flush(self) -> None:
        """Write, in one statement, when each session was last heard of."""
        heard = sorted(self._live.unflushed(), key=lambda each: each.node_id)
        if heard:
            live = await self._database.run(
                sessions.flush,
                heard,
                gateway_id=self.gateway_id,
                monotonic=self._live.monotonic,
            )
            self._live.flushed(heard, live=live)

    async def stop(self) -> None:
        """Tell a last time, and give the lease up, so that nobody waits for it to lapse."""
        await self._survive(self.flush)
        await self._survive(self._leave)

    @property
    def lease_name(self) -> str:
        """What this gateway holds while it lives."""
        return f"{ROLE}:{self.gateway_id}"

    async def _leave(self) -> None:
        if self._lease is not None:
            await self._database.run(leases.give_up, self._lease)
        await self._database.run(heartbeats.stop)

    async def _survive(self, turn: Callable[[], Awaitable[None]]) -> None:
        try:
            await turn()
        except errors.Unavailable as error:
            if not self._away:
                log.warning("The database is away (%s); sessions go on from memory.", error)
            self._away = True
        except Exception:
            # The edge of a loop: whatever went wrong this time, the next turn may work.
            log.exception("Telling the database failed")
        else:
            if self._away:
                log.info("The database is back.")
            self._away = False
