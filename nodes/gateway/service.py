"""The gateway (N2): what it does at each call of an agent.

It is less trusted than the control plane. It writes sessions, keys and what nodes report, each on
the reporting node's own rows; whether a report counts is decided elsewhere, from what was signed.

While the database is away, sessions go on from memory: heartbeats and long polls are answered,
ages grow truthfully and are flushed later, and reports are refused with 503, so that they stay in
the agents' journals. A gateway that is cut off for a minute refuses everything, so that its agents
try another: the database may be away from this gateway only, and there they would seem silent.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable

from bettercompute import errors
from nodes import desired, enrollment, reports, sessions
from nodes.gateway.database import Database
from nodes.gateway.flush import Flush
from nodes.gateway.http import Request
from nodes.gateway.live import Live, LiveSession
from nodes.gateway.watch import Watch
from nodes.protocol import messages, signing
from nodes.protocol.messages import (
    Assignment,
    ChallengeAnswer,
    ChallengeRequest,
    DesiredAnswer,
    EnrollAnswer,
    EnrollRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    HelloAnswer,
    HelloRequest,
    ReportsAnswer,
    ReportsRequest,
)
from nodes.sessions import SessionSuperseded, SessionToken

HEARTBEAT_SECONDS = 5.0
GENERATION_MAX = 2**62


class Gateway:
    """One gateway process."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.database = Database()
        self.live = Live(monotonic=monotonic)
        self.watch = Watch(self.live, self.database)
        self.flush = Flush(self.live, self.database)
        self._loops: list[asyncio.Task[None]] = []

    @property
    def id(self) -> str:
        """Who this gateway is to leases and sessions."""
        return self.flush.gateway_id

    async def start(self) -> None:
        """Begin to watch and to tell; a database that is away delays nothing but readiness."""
        self._loops = [
            asyncio.create_task(self.flush.run()),
            asyncio.create_task(self.watch.run()),
        ]

    async def stop(self) -> None:
        """Answer those who wait, tell a last time, and let go of everything."""
        self.watch.stop()
        for loop in self._loops:
            loop.cancel()
        for loop in self._loops:
            with contextlib.suppress(asyncio.CancelledError):
                await loop
        await self.flush.stop()
        await asyncio.to_thread(self.database.close)

    async def enroll(self, request: Request) -> EnrollAnswer:
        """Trade a token for an identity."""
        asked = await request.body(EnrollRequest)
        try:
            public_key = signing.public_key(asked.public_key)
        except signing.KeyUnreadable as error:
            raise errors.InvalidInput.at("publicKey", str(error)) from error
        enrolled = await self.database.run(
            enrollment.enroll, token=asked.token, public_key=public_key
        )
        return EnrollAnswer(node_id=enrolled.node_id, kid=enrolled.kid)

    async def challenge(self, request: Request) -> ChallengeAnswer:
        """Give something fresh to sign."""
        asked = await request.body(ChallengeRequest)
        given = await self.database.run(sessions.challenge, asked.node_id)
        return ChallengeAnswer(challenge=given.text, expires_in_seconds=given.expires_in_seconds)

    async def hello(self, request: Request) -> HelloAnswer:
        """Open the node's next session."""
        asked = await request.body(HelloRequest)
        opened = await self.database.run(
            sessions.hello, text=asked.hello, signature=asked.signature, gateway_id=self.id
        )
        self.live.put(opened.token)
        return HelloAnswer(
            session_token=opened.token.text,
            epoch=opened.token.epoch,
            heartbeat_seconds=HEARTBEAT_SECONDS,
            applied_seq=opened.applied_seq,
        )

    async def heartbeat(self, request: Request) -> HeartbeatAnswer:
        """Being called is all there is to it (N8)."""
        session = await self._session(request)
        # A body that is left unread costs the connection, and each beat would need a new one.
        await request.body(HeartbeatRequest)
        return HeartbeatAnswer(epoch=session.epoch)

    async def desired(self, request: Request) -> DesiredAnswer:
        """The desired state: at once where it is news to the agent, else when it becomes so."""
        session = await self._session(request)
        known = request.number("generation", default=-1, least=-1, most=GENERATION_MAX)
        seconds = request.number("wait", default=0, least=0, most=messages.WAIT_SECONDS_MAX)
        answer = await self._read_desired(session, known=known)
        if answer.generation != known or not seconds:
            return answer
        changed = await self.watch.wait(session, generation=known, seconds=seconds)
        if session.superseded:
            raise SessionSuperseded
        return await self._read_desired(session, known=None) if changed else answer

    async def reports(self, request: Request) -> ReportsAnswer:
        """Apply journal entries."""
        session = await self._session(request)
        asked = await request.body(ReportsRequest, bytes_max=messages.REPORTS_BYTES_MAX)
        try:
            return await self.database.run(
                reports.apply, session.node_id, epoch=session.epoch, entries=asked.entries
            )
        except SessionSuperseded:
            self.live.supersede(session.node_id, epoch=-1)
            raise

    async def _session(self, request: Request) -> LiveSession:
        """The live session of the caller, who has just been heard of.

        Raises: errors.Unauthenticated, SessionSuperseded, errors.Unavailable.
        """
        token = SessionToken.read(request.bearer())
        session = self.live.get(token)
        if session is None:
            await self.database.run(sessions.adopt, token, gateway_id=self.id)
            session = self.live.put(token)
        if session.superseded:
            raise SessionSuperseded
        self.live.contact(session)
        if self.flush.cut_off():
            raise errors.Unavailable("This gateway has lost its database; try another.")
        return session

    async def _read_desired(self, session: LiveSession, *, known: int | None) -> DesiredAnswer:
        """From the database; while it is away, from memory if the agent knows as much."""
        try:
            session.desired = await self.database.run(_desired, session.node_id)
        except errors.Unavailable:
            if session.desired is None or session.desired.generation != known:
                raise
        return session.desired


def _desired(node_id: str) -> DesiredAnswer:
    # What ends is read first: should one end in between, it is still listed as wanted, and the
    # agent goes by that until the next generation, which is there already.
    ending = reports.ending(node_id)
    state = desired.read(node_id)
    return DesiredAnswer(
        generation=state.generation,
        assignments=[Assignment.model_validate(each.to_wire()) for each in state.assignments],
        ending=ending,
    )
