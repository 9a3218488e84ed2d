"""A subscriber: one open stream, how far it is, and what it has before it.

Whoever is *behind* is read to from the database by its own stream, a page at a time, until it has
caught up with the process's one reader; from then on that hands it every event that it asked for.
A subscriber for which ``QUEUE_MAX`` events wait is simply behind again: what waits in memory is
bounded, and nothing is lost.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from bettercompute.iam.standing import Credential
from outbox.filters import Filters
from outbox.positions import Position
from outbox.reader import EventRow
from outbox.streaming import frames

QUEUE_MAX = 256  # frames, which all subscribers share, so this bounds references


@dataclass(slots=True)
class Arrival:
    """An event as it goes out, its bytes made once for all who get it."""

    row: EventRow
    _bytes: bytes = b""

    @property
    def frame(self) -> bytes:
        """Its bytes."""
        if not self._bytes:
            self._bytes = frames.event(self.row)
        return self._bytes


@dataclass(slots=True, eq=False)
class Subscriber:
    """One open stream."""

    credential: Credential
    filters: Filters
    position: Position  # everything up to here has been sent, or was not asked for
    behind: bool = True
    lost: bool = False  # it has to be told that events may be missing
    ended: str = ""  # why it must not go on
    expires_at: float = float("inf")  # of the event loop's clock
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: deque[tuple[Position, bytes]] = field(default_factory=deque)

    @property
    def permit(self) -> tuple[Credential, bool]:
        """By what it may read, and whether the events of all tenants."""
        return (self.credential, self.filters.tenant_id is None)

    def offer(self, arrival: Arrival) -> None:
        """Hand it an event behind all that it was handed before."""
        row = arrival.row
        if self.behind or row.position <= self.position:
            return  # its own reading comes to it, or it has
        if not self.filters.match(type=row.type, tenant_id=row.tenant_id, subject=row.subject):
            return
        if len(self._waiting) >= QUEUE_MAX:
            self.fall_behind()
        else:
            self._waiting.append((row.position, arrival.frame))
        self.wake.set()

    def take(self) -> tuple[Position, bytes] | None:
        """What to send next."""
        return self._waiting.popleft() if self._waiting else None

    def fall_behind(self) -> None:
        """From now on read for yourself, from where you are."""
        self._waiting.clear()
        self.behind = True
        self.wake.set()

    def lose(self, position: Position) -> None:
        """Its place is gone: it is told so, and goes on from here."""
        self.fall_behind()
        self.position, self.lost = position, True

    def expire_at(self, instant: float) -> None:
        """End it then, if not before."""
        if instant < self.expires_at:
            self.expires_at = instant
            self.wake.set()

    def end(self, reason: str) -> None:
        """It must not go on."""
        self.ended = self.ended or reason
        self.wake.set()
