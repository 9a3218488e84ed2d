"""Event streams in the test's own process: the whole server application, without a socket.

A stream runs in the test's event loop; Django and the readers run in their threads, so tests of
streams commit, and wait for what is to come instead of sleeping.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from django.db import connections

from bettercompute import asgi
from outbox import events
from outbox.events import NewEvent
from outbox.streaming import hub
from tests.support import cast

T = TypeVar("T")

PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class Frame:
    """What stands between two empty lines of a stream."""

    id: str = ""
    event: str = ""
    data: Any = None
    retry: int = 0
    comment: str = ""


@dataclass
class Stream:
    """One open stream, as its client sees it."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_over: bool = False
    reads: asyncio.Event = field(default_factory=asyncio.Event)  # cleared: the client stalls
    left: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def frames(self) -> list[Frame]:
        """All whole frames so far."""
        return [parsed(text) for text in self.body.decode().split("\n\n")[:-1]]

    @property
    def events(self) -> list[Frame]:
        """Those that are events."""
        return [frame for frame in self.frames if frame.event]

    @property
    def last_id(self) -> str:
        """What a client would send when it comes back."""
        return [frame.id for frame in self.frames if frame.id][-1]

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until something holds of what has come."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not true():
                self.changed.clear()
                await self.changed.wait()

    async def count(self, number: int) -> list[Frame]:
        """Wait for so many events, and answer all there are."""
        await self.until(lambda: len(self.events) >= number)
        return self.events

    async def end(self) -> None:
        """Wait until the server ends it."""
        await self.until(lambda: self.is_over)

    async def receive(self) -> dict[str, Any]:
        """What the application hears: a request without a body, and one day that it is gone."""
        if not self.status and not self.left.is_set() and not hasattr(self, "_asked"):
            self._asked = True
            return {"type": "http.request", "body": b""}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        """What the application says; waits while the client does not read."""
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            self.body += message["body"]
            self.is_over = not message.get("more_body", False)
        self.changed.set()


def parsed(text: str) -> Frame:
    """One frame."""
    fields: dict[str, Any] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        assert (name or "comment") not in fields, f"a field twice in {text!r}"
        fields[name or "comment"] = value.removeprefix(" ")
    if "data" in fields:
        fields["data"] = json.loads(fields["data"])
    if "retry" in fields:
        fields["retry"] = int(fields["retry"])
    return Frame(**fields)


@asynccontextmanager
async def opened(
    headers: dict[str, str], query: str = "", *, last: str = "", method: str = "GET"
) -> AsyncIterator[Stream]:
    """A stream that is open as long as the block."""
    stream = Stream()
    stream.reads.set()
    sent = {"host": "testserver", "accept": "text/event-stream", **headers} | (
        {"last-event-id": last} if last else {}
    )
    scope = {
        "type": "http",
        "method": method,
        "path": "/api/v1/events/stream",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 5000),
    }
    serving = asyncio.ensure_future(asgi.application(scope, stream.receive, stream.send))
    serving.add_done_callback(lambda _: (setattr(stream, "is_over", True), stream.changed.set()))
    try:
        await stream.until(lambda: stream.status or stream.is_over)
        yield stream
    finally:
        stream.left.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.wait({serving})


def bearer(name: str) -> dict[str, str]:
    """A fresh token of one of the cast."""
    return {"authorization": f"Bearer {cast.token(name)[1]}"}


async def apart(what: Callable[[], T]) -> T:
    """Do something with the database from inside a scenario, committed when this returns."""

    def run() -> T:
        try:
            return what()
        finally:
            connections.close_all()

    return await asyncio.to_thread(run)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, clock: object) -> Iterator[None]:
    """A hub of this test's event loop, that looks often."""
    asgi._hub.cache_clear()
    monkeypatch.setattr(hub, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(hub, "PAUSE_SECONDS", 0.0)
    yield
    asgi._hub.cache_clear()


def publish(*names: str, slug: str = "acme", verb: str = "pending") -> None:
    """Events in one transaction, one about each name."""
    tenant = cast.tenant(slug).pk
    data = {"state": "pending", "poolId": "pool_a"}
    events.publish_many(
        NewEvent(f"reservation.{verb}", tenant, f"reservation/{name}", data) for name in names
    )


async def published(*names: str, **more: str) -> None:
    """The same from inside a scenario."""
    await apart(lambda: publish(*names, **more))


def named(frames: list[Frame]) -> list[str]:
    """What the events among them are about."""
    return [frame.data["subject"].partition("/")[2] for frame in frames if frame.event != "reset"]
