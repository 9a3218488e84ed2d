"""A stream as the server process serves it: the opening, what is new, a sign of life, an end (A7).

A client that does not read is dropped: what it was sent last has to leave within
``SEND_SECONDS_MAX``, and what waits for it meanwhile is bounded (``subscribers``).
"""

import asyncio
import random
from dataclasses import dataclass

import structlog
from django.db import Error as DatabaseError

from bettercompute.web.bridge import Answer, Receive, Send
from outbox.cluster import ForeignCluster
from outbox.positions import Position
from outbox.streaming import frames
from outbox.streaming.hub import BATCH, Hub
from outbox.streaming.marker import Marker
from outbox.streaming.subscribers import Subscriber

log = structlog.get_logger(__name__)

HEARTBEAT_SECONDS = 15.0
SEND_SECONDS_MAX = 20.0
#: A stream ends after so long, and is opened anew: so streams spread over the servers again.
AGE_SECONDS = (900.0, 1_200.0)
#: Who was let go by a process that stops comes back at different moments of this many.
BACK_MS = (200, 2_000)


@dataclass(slots=True)
class Client:
    """Who reads a stream: how to send to it, and how far it knows that it is."""

    send: Send
    told: Position  # the last id that it was sent

    async def write(self, frame: bytes, position: Position | None = None) -> None:
        """Send, and wait until it has left as far as the server's own buffers.

        Raises:
            TimeoutError: the client does not read.
        """
        async with asyncio.timeout(SEND_SECONDS_MAX):
            await self.send({"type": "http.response.body", "body": frame, "more_body": True})
        self.told = position or self.told


async def stream(answer: Answer, marker: Marker, *, hub: Hub, receive: Receive, send: Send) -> None:
    """Serve one stream to its end; ``answer`` begins it.

    Raises:
        RateLimited, Unavailable: there are too many; nothing has been sent yet.
    """
    subscriber = Subscriber(marker.credential, marker.filters, marker.position)
    loop = asyncio.get_running_loop()
    lasts = _age_max() if marker.seconds is None else min(_age_max(), marker.seconds)
    subscriber.expires_at = loop.time() + lasts
    hub.subscribe(subscriber)
    # The body has been read: what comes next is that the client is gone.
    gone = asyncio.ensure_future(receive())
    gone.add_done_callback(lambda _: subscriber.end("the client left"))
    client = Client(send, marker.position)
    try:
        await send({"type": "http.response.start", "status": 200, "headers": answer.headers})
        await client.write(answer.body)
        await _serve(subscriber, client, hub)
        await client.write(frames.farewell(_back_ms()))
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    except TimeoutError:
        log.info("stream dropped: its client does not read", account=marker.credential.account_id)
        # The server closes the connection of a request that is cancelled, whatever is unsent.
        raise asyncio.CancelledError from None
    finally:
        hub.leave(subscriber)
        gone.cancel()


async def _serve(subscriber: Subscriber, client: Client, hub: Hub) -> None:
    """Send whatever there is, until something ends it."""
    loop = asyncio.get_running_loop()
    beat_at = loop.time() + HEARTBEAT_SECONDS
    while not subscriber.ended and loop.time() < subscriber.expires_at:
        subscriber.wake.clear()
        if subscriber.lost:
            subscriber.lost = False
            await client.write(frames.reset(subscriber.position), subscriber.position)
        elif subscriber.behind and hub.placed:
            await _catch_up(subscriber, client, hub)
        elif (waiting := subscriber.take()) is not None:
            subscriber.position, frame = waiting
            await client.write(frame, subscriber.position)
        elif loop.time() >= beat_at:
            await _beat(subscriber, client, hub)
        else:
            await _sleep(subscriber, min(beat_at, subscriber.expires_at) - loop.time())
            continue
        beat_at = loop.time() + HEARTBEAT_SECONDS


async def _catch_up(subscriber: Subscriber, client: Client, hub: Hub) -> None:
    """Send one page of what it has missed; it joins where that was the last."""
    target = hub.position
    if subscriber.position < target:
        try:
            page = await hub.page(subscriber)
        except (DatabaseError, ForeignCluster):
            subscriber.end("the database is away")  # it comes back with its place
            return
        if subscriber.lost:
            return
        if page is None:
            subscriber.lose(target)
            return
        for row in page:
            subscriber.position = row.position
            await client.write(frames.event(row), row.position)
            if subscriber.ended or subscriber.lost:
                return
        if len(page) == BATCH:
            return
        subscriber.position = max(subscriber.position, target)
    # Nothing is awaited from here on: the reader cannot move meanwhile.
    subscriber.behind = subscriber.position < hub.position


async def _beat(subscriber: Subscriber, client: Client, hub: Hub) -> None:
    """A sign of life; what it has not asked for is passed as well."""
    if not subscriber.behind:
        subscriber.position = max(subscriber.position, hub.position)
    further = subscriber.position if subscriber.position > client.told else None
    await client.write(frames.heartbeat(further), further)


def _age_max() -> float:
    return random.uniform(*AGE_SECONDS)  # noqa: S311  # so that not all end at once


def _back_ms() -> int:
    return random.randint(*BACK_MS)  # noqa: S311  # so that not all come back at once


async def _sleep(subscriber: Subscriber, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await subscriber.wake.wait()
    except TimeoutError:
        pass
