"""Many agents in one process, each with a key, a session and holds of its own (N3).

They are the agents of ``bettercompute.agent`` and speak to a real gateway; simulated are only the
hosts, which are inventories handed in. With a directory a node keeps its holds there (as files,
like a real host under ``--root``), so a restarted fleet goes on where it was.
"""

import asyncio
import contextlib
import functools
import logging
import random
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

from bettercompute.agent import link as links
from bettercompute.agent import session as sessions
from bettercompute.agent.bind import DiskHolds, MemoryHolds
from bettercompute.agent.daemon import Daemon
from bettercompute.agent.inventory import HostInventory
from bettercompute.agent.journal import MemoryJournal
from bettercompute.agent.link import Backoff, Link
from bettercompute.agent.session import About, Identity, Session
from bettercompute.simulator.faults import (
    Board,
    Current,
    FaultyHolds,
    FaultyKey,
    FaultyTransport,
    SimulatedUse,
)
from nodes.protocol import messages
from nodes.protocol.signing import NodeKey

log = logging.getLogger(__name__)

VERSION = "simulated"
CAPABILITIES = ("devices.limits",)
STARTING_AT_ONCE_MAX = 16  # a thousand hellos at once would only time out in a queue
START_SECONDS_MAX = 2.0  # one that cannot start (a silent one, say) holds up nobody for longer
CONNECT_SECONDS = 15.0  # a thousand agents on a busy machine are slow without anything being wrong
KEEP_ALIVE_SECONDS = 30.0
CALLS_AT_ONCE_MAX = 4  # of one agent: a long poll, a report, a heartbeat, a hello

Transport = Callable[[], httpx2.AsyncBaseTransport]


@dataclass(frozen=True, slots=True)
class Member:
    """One simulated node. A token, where it has yet to enrol its key."""

    node_id: str
    key: NodeKey
    inventory: HostInventory
    enrolment_token: str | None = None
    directory: Path | None = None


class Fleet:
    """All simulated nodes."""

    def __init__(
        self,
        members: Sequence[Member],
        gateways: Sequence[str],
        *,
        board: Board | None = None,
        transport: Transport | None = None,
        tells_use: bool = False,
        seed: int | None = None,
    ) -> None:
        self.board = board or Board()
        self.daemons: dict[str, Daemon] = {}
        self._members = members
        self._gateways = gateways
        self._tells_use = tells_use
        self._transport = transport or functools.partial(network, ssl.create_default_context())
        self._starting = asyncio.Semaphore(STARTING_AT_ONCE_MAX)
        self._random = random.Random(seed)  # noqa: S311  # spreads retries, hides nothing

    async def run(self) -> None:
        """Simulate until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for member in self._members:
                tasks.create_task(self._live(member))

    async def _live(self, member: Member) -> None:
        faults = functools.partial(self.board.of, member.node_id)
        transport = FaultyTransport(self._transport(), faults)
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            link = Link(self._gateways, client, connect_seconds=CONNECT_SECONDS)
            if member.enrolment_token and not await self._enroll(member, link):
                return
            daemon = self._daemon(member, link)
            self.daemons[member.node_id] = daemon
            async with asyncio.TaskGroup() as tasks, self._starting:
                tasks.create_task(daemon.run())
                await _started(daemon)

    async def _enroll(self, member: Member, link: Link) -> bool:
        """Trade the token for the identity; False where it is refused for good."""
        assert member.enrolment_token is not None
        backoff = Backoff(random=self._random)
        while True:
            try:
                async with self._starting:
                    await sessions.enroll(link, token=member.enrolment_token, key=member.key)
            except links.Unreachable as error:
                log.info("%s: enrolment: %s", member.node_id, error)
                await asyncio.sleep(backoff.next())
            except (links.Refused, links.SessionEnded) as error:
                log.warning("%s cannot be enrolled: %s", member.node_id, error)
                return False
            else:
                return True

    def _daemon(self, member: Member, link: Link) -> Daemon:
        faults = functools.partial(self.board.of, member.node_id)
        session = Session(
            link,
            Identity(member.node_id, FaultyKey(member.key, faults)),
            About(
                boot_id=member.inventory.boot_id,
                agent_version=VERSION,
                capabilities=(*CAPABILITIES, messages.USE) if self._tells_use else CAPABILITIES,
            ),
            clock_offset_ms=lambda: int(faults().clock_offset_seconds * 1_000),
        )
        directory = member.directory
        daemon = Daemon(
            session,
            inventory=member.inventory,
            holds=FaultyHolds(
                DiskHolds(directory / "root", durable=False) if directory else MemoryHolds(), faults
            ),
            # A real agent's journal is a file. Here a thousand of them would only wear out a disk:
            # an agent that lost its journal says everything again, from its holds.
            journal=MemoryJournal(),
            use=SimulatedUse(faults) if self._tells_use else None,
            random=self._random,
        )
        self.board.listen(functools.partial(_react, daemon, faults))
        return daemon


def network(context: ssl.SSLContext) -> httpx2.AsyncBaseTransport:
    """One agent's connections: its own pool, since a shared one searches all of its connections."""
    limits = httpx2.Limits(
        max_connections=CALLS_AT_ONCE_MAX,
        max_keepalive_connections=CALLS_AT_ONCE_MAX,
        keepalive_expiry=KEEP_ALIVE_SECONDS,
    )
    return httpx2.AsyncHTTPTransport(verify=context, limits=limits)


async def _started(daemon: Daemon) -> None:
    """Wait for its first session, but not for ever."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS_MAX):
            while not daemon.session.live:
                await asyncio.sleep(0.02)


def _react(daemon: Daemon, faults: Current) -> None:
    """A switched fault shows at once, not at the next look."""
    daemon.look()
    if faults().old_epoch:
        daemon.session.forget()  # so that there is an older epoch
