"""What a gateway keeps in memory (C1): live sessions and when each was last heard of.

All of it is rebuilt from ``node_sessions`` as agents call. Times are of this process's monotonic
clock, so a gateway whose wall clock is wrong is as truthful as any other (C8).
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from nodes.protocol.messages import DesiredAnswer
from nodes.sessions import Heard, SessionToken

FORGET_SECONDS = 3_600.0  # a session silent for so long is looked up again if it ever returns


class LiveSession:
    """One agent's session, as this gateway knows it."""

    def __init__(self, token: SessionToken, heard_at: float) -> None:
        self.node_id = token.node_id
        self.epoch = token.epoch
        self.key = token.hash
        self.heard_at = heard_at
        self.flushed_at = float("-inf")  # the value of heard_at that the database has
        self.superseded = False
        self.desired: DesiredAnswer | None = None  # the last answer, for when the database is away
        self.waiters: set[asyncio.Event] = set()

    def wake(self) -> None:
        """Let every long poll of this session look again."""
        for waiter in self.waiters:
            waiter.set()


class Live:
    """The live sessions of one gateway. Used from its event loop only."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self.since = monotonic()  # nothing was heard here before
        self._by_node: dict[str, LiveSession] = {}

    def __len__(self) -> int:
        return len(self._by_node)

    def get(self, token: SessionToken) -> LiveSession | None:
        """The session of this token, if it is known here."""
        session = self._by_node.get(token.node_id)
        return session if session is not None and session.key == token.hash else None

    def put(self, token: SessionToken) -> LiveSession:
        """A session that the database has just confirmed; it supersedes an older one."""
        before = self._by_node.get(token.node_id)
        if before is not None and before.key == token.hash:
            return before
        session = LiveSession(token, self.monotonic())
        if before is not None and before.epoch > token.epoch:
            session.superseded = True  # two confirmations crossed; the later epoch stays
            return session
        if before is not None:
            self._end(before)
        self._by_node[token.node_id] = session
        return session

    def contact(self, session: LiveSession) -> None:
        """Heard of it just now."""
        session.heard_at = self.monotonic()

    def supersede(self, node_id: str, *, epoch: int) -> None:
        """The database knows another epoch of this node: the session here is over."""
        session = self._by_node.get(node_id)
        if session is not None and session.epoch != epoch:
            del self._by_node[node_id]
            self._end(session)

    def waiting(self) -> list[LiveSession]:
        """Sessions with a long poll open."""
        return [session for session in self._by_node.values() if session.waiters]

    def unflushed(self) -> list[Heard]:
        """What the database does not know yet."""
        return [
            Heard(session.node_id, session.epoch, session.heard_at)
            for session in self._by_node.values()
            if session.heard_at > session.flushed_at
        ]

    def flushed(self, heard: Iterable[Heard], *, live: set[str]) -> None:
        """These are written; whoever was not among the live ones has been superseded."""
        for each in heard:
            session = self._by_node.get(each.node_id)
            if session is None or session.epoch != each.epoch:
                continue
            if each.node_id in live:
                session.flushed_at = each.at_monotonic
            else:
                del self._by_node[each.node_id]
                self._end(session)

    def forget_silent(self) -> None:
        """Drop sessions that have not been heard of for long."""
        oldest = self.monotonic() - FORGET_SECONDS
        for session in [each for each in self._by_node.values() if each.heard_at < oldest]:
            del self._by_node[session.node_id]
            session.wake()

    def wake_all(self) -> None:
        """Let every long poll answer now."""
        for session in self._by_node.values():
            session.wake()

    def _end(self, session: LiveSession) -> None:
        session.superseded = True
        session.wake()
