"""Open streams are counted while they are open, and are no slow requests."""

import asyncio

import pytest

from bettercompute import asgi
from bettercompute.telemetry import metrics
from bettercompute.web import bridge
from bettercompute.web.bridge import Answer
from bettercompute.web.serving import Served
from outbox.streaming import serving as streams
from outbox.streaming.marker import Marker

LABELS = {"server": "web"}


def _open() -> float | None:
    return metrics.REGISTRY.get_sample_value("better_compute_streams", LABELS)


def test_a_stream_is_counted_while_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float | None] = []
    ended: list[Served] = []

    async def begun(*_: object) -> Answer:
        return Answer(200, [(asgi.STREAM, b"{}")])

    async def stream(*_: object, **__: object) -> None:
        seen.append(_open())
        await asyncio.sleep(0.01)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b""}

    async def send(message: object) -> None:
        pass

    monkeypatch.setattr(bridge.WsgiBridge, "call", begun)
    monkeypatch.setattr(Marker, "read", lambda value: value)
    monkeypatch.setattr(streams, "stream", stream)
    monkeypatch.setattr(asgi, "_hub", lambda: None)
    monkeypatch.setattr(Served, "end", lambda served, *_, **__: ended.append(served))
    path = "/api/v1/events/stream"
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b""}
    scope["headers"] = [(b"host", b"compute.example.org")]
    asyncio.run(asgi.application(scope, receive, send))
    assert seen == [1.0]
    assert _open() == 0.0
    assert ended[0].waited >= 0.01
