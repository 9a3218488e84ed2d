"""Holding an answer back until there is something to say, without a thread or a connection (R14).

A view that was asked to wait answers at once, with the header ``X-BetterCompute-Wait`` and what to
look at. The server takes the header off, sleeps, and looks again in a thread of its own, until the
operation no longer runs, the time is up, the client is gone, or this process is asked to stop. The
time being up is no error: the first answer is sent then.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from pydantic import BaseModel

from bettercompute.web import etags, lifetime, rendering
from bettercompute.web.bridge import Answer, Message, Receive

log = structlog.get_logger(__name__)

MARKER = b"x-bettercompute-wait"
WAIT_MS_MAX = 30_000
FIRST_PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 1.0

#: Looks at the thing once; None while its operation still runs.
Look = Callable[[str], Awaitable[BaseModel | None]]


@dataclass(frozen=True, slots=True)
class Marker:
    """What to look at, and for how long."""

    reservation_id: str
    timeout_ms: int

    @classmethod
    def read(cls, value: bytes) -> "Marker":
        """From the header's JSON."""
        document = json.loads(value)
        return cls(document["reservationId"], min(int(document["timeoutMs"]), WAIT_MS_MAX))


async def hold(answer: Answer, marker: Marker, *, look: Look, receive: Receive) -> Answer | None:
    """The answer to send in the end; None when the client went away."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + marker.timeout_ms / 1_000
    gone = asyncio.ensure_future(receive())  # the body has been read: next is the disconnect
    pause = FIRST_PAUSE_SECONDS
    try:
        while (left := deadline - loop.time()) > 0 and not lifetime.is_stopping():
            await asyncio.wait({gone}, timeout=min(pause, left))
            if gone.done():
                return None
            found = await _look_safely(look, marker.reservation_id)
            if found is not None:
                return _renewed(answer, found)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)
        return answer
    finally:
        await _cancel(gone)


async def _look_safely(look: Look, reservation_id: str) -> BaseModel | None:
    """The database may be away for a moment; what was answered first stays true."""
    try:
        return await look(reservation_id)
    except Exception:
        log.exception("look failed", reservation=reservation_id)
        return None


def _renewed(answer: Answer, found: BaseModel) -> Answer:
    headers = answer.without(b"content-length", b"etag")
    body = rendering.to_bytes(found)
    version = getattr(found, "version", None)
    if version is not None:
        live = getattr(found, "waiting", None) is not None
        etag = etags.of_version_and_content(version, body) if live else etags.of_version(version)
        headers.append((b"etag", etag.encode()))
    return Answer(answer.status, headers, body)


async def _cancel(task: "asyncio.Future[Message]") -> None:
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
