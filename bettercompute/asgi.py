"""The server: Django in threads, and beside it what must not hold one.

Everything that is not a stream runs in Django's WSGI stack, in ``WEB_THREADS`` threads with one
database connection each: measured, that is two to four times as fast as Django over ASGI. Bodies
are read, and refused, before a thread is taken; a request that waits for its reservation (R14)
sleeps here.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TypeVar

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bettercompute.settings.embedded")

import django
import structlog

django.setup()  # before anything that knows models is imported

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from pydantic import BaseModel

from bettercompute import clock, errors
from bettercompute.coordination.heart import Heart
from bettercompute.telemetry import metrics, otel
from bettercompute.web import (
    bridge,
    health,
    hosts,
    longpoll,
    metrics_page,
    problems,
    requests,
    serving,
)
from bettercompute.web.bridge import Answer, Message, Receive, Scope, Send
from bettercompute.web.serving import Served
from outbox.streaming import serving as streams
from outbox.streaming.hub import Hub
from outbox.streaming.marker import Marker
from reservations import outages, waiting

Found = TypeVar("Found")

log = structlog.get_logger(__name__)

BODY_SECONDS_MAX = 30
LOOKING_THREADS = 2
STREAMING_THREADS = 2  # the one reader of events, and streams that catch up

#: Of an answer that only begins a stream: how it goes on.
STREAM = b"x-bettercompute-stream"

_django = bridge.WsgiBridge(
    get_wsgi_application(),
    ThreadPoolExecutor(settings.WEB_THREADS, thread_name_prefix="web"),
)
# Waiting clients and health checks look through threads of their own: a full house does not make
# the load balancer think that this process is dead.
_looking = ThreadPoolExecutor(LOOKING_THREADS, thread_name_prefix="look")
_streaming = ThreadPoolExecutor(STREAMING_THREADS, thread_name_prefix="stream")


def _beat() -> None:
    outages.beat()
    clock.synchronise()  # C7: a web process holds no lease at whose renewal it would


_heart = Heart(_beat)


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """One connection's request, or the server's lifespan."""
    match scope["type"]:
        case "lifespan":
            await _lifespan(receive, send)
        case "http":
            await _serve(scope, receive, send)
        case "websocket":
            await send({"type": "websocket.close", "code": 1000})


async def _serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request, and count it."""
    scope["path"] = bridge.below_host(scope["path"])
    served = Served("web", scope["method"], scope["path"])
    scope[serving.ENVIRON] = served
    try:
        answer = await _answer(scope, receive)
    except Exception:  # the edge: what Django has not made an answer of
        log.exception("a request failed outside Django", path=scope["path"])
        answer = _problem(scope, errors.Internal())
    if answer is None:
        served.end(serving.CLIENT_GONE)
        return
    marker = answer.header(STREAM)
    answer.headers = answer.without(STREAM)  # it names the session: nobody else is to read it
    try:
        if marker is not None and scope["method"] == "GET":
            answer = await _stream(scope, answer, Marker.read(marker), receive, send)
        else:
            await bridge.send(answer, send)
    finally:
        served.end(answer.status, bytes_sent=len(answer.body))


async def _answer(scope: Scope, receive: Receive) -> Answer | None:
    """The answer; None when the client went away first."""
    try:
        hosts.check(scope)
    except errors.InvalidInput as error:
        return _problem(scope, error)
    probes = scope["method"] in {"GET", "HEAD"}  # Django refuses the others
    if probes and scope["path"] == health.HEALTH_PATH:
        _as_probe(scope)
        return _plain(200, health.ALIVE)
    if probes and scope["path"] == health.READY_PATH:
        _as_probe(scope)
        found = await health.ready_soon()
        return _plain(found.status, found.body)
    if probes and scope["path"] == metrics.PATH:
        return await _metrics(scope)
    try:
        _check_headers(dict(scope["headers"]))
        body = await _read(receive)
    except errors.ApiError as error:
        return _problem(scope, error)
    return None if body is None else await _from_django(scope, body, receive)


async def _from_django(scope: Scope, body: bytes, receive: Receive) -> Answer | None:
    served: Served = scope[serving.ENVIRON]
    answer = await _django.call(scope, body)
    marker = answer.header(longpoll.MARKER)
    if marker is None:
        return answer
    answer.headers = answer.without(longpoll.MARKER)
    with served.waiting():
        wished = longpoll.Marker.read(marker)
        return await longpoll.hold(answer, wished, look=_look, receive=receive)


async def _metrics(scope: Scope) -> Answer:
    """What is counted; also while all of Django's threads are taken."""
    _as_probe(scope)
    identifier = _identify(scope)
    authorization = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    page = await _in_thread(_looking, lambda: metrics_page.answer(authorization, identifier))
    headers = {**page.headers, requests.HEADER: identifier}
    named = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return Answer(page.status, named, b"" if scope["method"] == "HEAD" else page.body)


def _as_probe(scope: Scope) -> None:
    """Nobody wants to read of every probe."""
    served: Served = scope[serving.ENVIRON]
    served.route, served.level = served.path, logging.DEBUG


async def _stream(
    scope: Scope, answer: Answer, marker: Marker, receive: Receive, send: Send
) -> Answer:
    """Go on with what a view has begun (``outbox.streaming``), to its end; what was answered."""
    served: Served = scope[serving.ENVIRON]
    answer.headers = answer.without(b"content-length")
    try:
        with served.waiting(), metrics.STREAMS.labels("web").track_inprogress():
            await streams.stream(answer, marker, hub=_hub(), receive=receive, send=send)
    except errors.ApiError as error:
        answer = _problem(scope, error)
        await bridge.send(answer, send)
    return answer


@cache
def _hub() -> Hub:
    return Hub(partial(_in_thread, _streaming))


def _check_headers(headers: dict[bytes, bytes]) -> None:
    """Refuse by the headers alone what need not be read."""
    if b"transfer-encoding" in headers:
        raise errors.LengthRequired
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > settings.BODY_BYTES_MAX:
        raise errors.PayloadTooLarge


async def _read(receive: Receive) -> bytes | None:
    """The whole body, bounded by its length above; None when the client goes away."""
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            return await _collect(receive)
    except TimeoutError as error:
        raise errors.InvalidInput.at("body", "did not arrive in time") from error


async def _collect(receive: Receive) -> bytes | None:
    chunks: list[bytes] = []
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def _problem(scope: Scope, error: errors.ApiError) -> Answer:
    identifier = _identify(scope)
    named = {
        "content-type": problems.MEDIA_TYPE,
        requests.HEADER.lower(): identifier,
        "connection": "close",  # the body is not read, so nothing can follow it
        **problems.headers(error),
    }
    answer = Answer(error.status, [], problems.body(error, identifier))
    answer.headers = [(name.lower().encode(), value.encode()) for name, value in named.items()]
    return answer


def _identify(scope: Scope) -> str:
    """The request's id: by which Django knows it, where it came so far."""
    served: Served = scope[serving.ENVIRON]
    if "request_id" not in served.who:
        presented = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        served.who["request_id"] = requests.identify(presented)
    return served.who["request_id"]


def _plain(status: int, body: bytes) -> Answer:
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    return Answer(status, headers, body)


def _look(reservation_id: str) -> Awaitable[BaseModel | None]:
    return _in_thread(_looking, lambda: waiting.poll(reservation_id))


async def _in_thread(pool: ThreadPoolExecutor, question: Callable[[], Found]) -> Found:
    def run() -> Found:
        close_old_connections()
        try:
            return question()
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(pool, run)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            otel.start("web")
            _heart.start()
            await send({"type": "lifespan.startup.complete"})
        else:
            await asyncio.to_thread(_heart.stop)
            await asyncio.to_thread(otel.stop)
            for pool in (_looking, _streaming):
                pool.shutdown(wait=False, cancel_futures=True)
            await send({"type": "lifespan.shutdown.complete"})
            return
