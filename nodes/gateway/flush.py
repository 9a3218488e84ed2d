"""What a gateway tells the database by itself: ages, that it beats, and that it holds its lease.

A beat is written in the transaction that flushes, so a gateway that beats has told what it knew
then: neither after an outage nor while a flush is stuck is a node judged before that (C38).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from django.db import transaction

from bettercompute import clock, errors
from bettercompute.coordination import heartbeats, leases, owner
from bettercompute.coordination.heartbeats import Role
from bettercompute.coordination.leases import Lease
from bettercompute.telemetry import metrics
from nodes import hearing, sessions
from nodes.gateway.database import Database
from nodes.gateway.live import Live
from nodes.sessions import Heard

log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
RENEW_SECONDS = 5.0
LEASE_SECONDS = 20  # C31
# A gateway that could tell nothing for so long sends its agents to others: twice what it survives
# without its database (N2).
CUT_OFF_SECONDS = 60.0


class Flush:
    """Keeps the database told."""

    def __init__(self, live: Live, database: Database) -> None:
        self.gateway_id = owner.OWNER
        self._live = live
        self._database = database
        self._lease: Lease | None = None
        self._beaten_at = float("-inf")
        self._told_at = live.monotonic()
        self._away = False

    async def run(self) -> None:
        """Tell the database every two seconds until cancelled; an outage only delays it."""
        while True:
            await self._survive(self.turn)
            await asyncio.sleep(FLUSH_SECONDS)

    async def turn(self) -> None:
        """Flush ages; renew lease and heartbeat when it is time."""
        is_time = self._live.monotonic() - self._beaten_at >= RENEW_SECONDS - FLUSH_SECONDS / 2
        await self._tell(beats=is_time)
        if is_time:
            self._beaten_at = self._live.monotonic()
        self._live.forget_silent()
        metrics.SESSIONS.labels("gateway").set(len(self._live))

    async def flush(self) -> None:
        """Write when each session was last heard of."""
        await self._tell(beats=False)

    def cut_off(self) -> bool:
        """Whether the database has not heard of this gateway for too long."""
        return self._live.monotonic() - self._told_at >= CUT_OFF_SECONDS

    async def _tell(self, *, beats: bool) -> None:
        known_at = self._live.monotonic()
        heard = sorted(self._live.unflushed(), key=lambda each: each.node_id)
        if heard or beats:
            live = await self._database.run(self._write, heard, known_at, beats=beats)
            self._live.flushed(heard, live=live)
            self._told_at = self._live.monotonic()

    def _write(self, heard: Sequence[Heard], known_at: float, *, beats: bool) -> set[str]:
        """In one transaction: what was heard, and that there was no more to hear until then."""
        with transaction.atomic():
            live = sessions.flush(
                heard,
                gateway_id=self.gateway_id,
                since=self._live.since,
                monotonic=self._live.monotonic,
            )
            if beats:
                self._lease = leases.take(self.lease_name, ttl_seconds=LEASE_SECONDS)
                clock.synchronise()  # C7: sampled at every renewal
                heartbeats.beat(Role.GATEWAY)
                age = self._live.monotonic() - known_at
                hearing.beat(self.gateway_id, age_seconds=age)
        return live

    async def stop(self) -> None:
        """Tell a last time, and give the lease up, so that nobody waits for it to lapse."""
        await self._survive(self.flush)
        await self._survive(self._leave)

    @property
    def lease_name(self) -> str:
        """What this gateway holds while it lives."""
        return f"{Role.GATEWAY}:{self.gateway_id}"

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
