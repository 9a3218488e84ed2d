"""The gateway as an ASGI application.

``gunicorn -c python:bettercompute.gunicorn_conf --workers 1 nodes.gateway.app:application``

One worker a process: its sessions are in its memory. Run several processes on addresses of their
own for more; agents know them all (N8).
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext

import django
from structlog import contextvars

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bettercompute.settings.embedded")
django.setup()

from django.db import connection

from bettercompute import errors
from bettercompute.telemetry import metrics, otel, tracing
from bettercompute.web import health, hosts, metrics_page, problems, serving
from bettercompute.web.metrics_page import Page
from bettercompute.web.serving import Served
from nodes.gateway import http
from nodes.gateway.http import Receive, Request, Scope, Send, Sent
from nodes.gateway.service import Gateway
from nodes.protocol.messages import PREFIX, Message

log = logging.getLogger(__name__)

Handler = Callable[[Gateway, Request], Awaitable[Message]]

ROUTES: dict[str, dict[str, Handler]] = {
    f"{PREFIX}/enroll": {"POST": Gateway.enroll},
    f"{PREFIX}/challenge": {"POST": Gateway.challenge},
    f"{PREFIX}/hello": {"POST": Gateway.hello},
    f"{PREFIX}/desired": {"GET": Gateway.desired},
    f"{PREFIX}/reports": {"POST": Gateway.reports},
    f"{PREFIX}/heartbeat": {"POST": Gateway.heartbeat},
}

#: What agents call all the time: in the log only where DEBUG is wanted.
QUIET = {
    f"{PREFIX}/desired",
    f"{PREFIX}/heartbeat",
    health.HEALTH_PATH,
    health.READY_PATH,
    metrics.PATH,
}


class Application:
    """Routes calls to a gateway that lives as long as the server does."""

    def __init__(self, make: Callable[[], Gateway] = Gateway) -> None:
        self._make = make
        self.gateway: Gateway | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        match scope["type"]:
            case "lifespan":
                await self._lifespan(receive, send)
            case "http":
                await self._http(Request(scope, receive), send)

    async def start(self) -> None:
        """Start the gateway in this process and event loop."""
        self.gateway = self._make()
        await self.gateway.start()

    async def stop(self) -> None:
        if self.gateway is not None:
            await self.gateway.stop()
            self.gateway = None

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                otel.start("gateway")
                await self.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.stop()
                await asyncio.to_thread(otel.stop)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, request: Request, send: Send) -> None:
        served = Served("gateway", request.method, request.path, route=_route_of(request.path))
        if served.path in QUIET:
            served.level = logging.DEBUG
        with contextvars.bound_contextvars(request_id=request.id), _traced(request, served):
            await self._answer(request, send)
            served.remember()
        sent = request.sent or Sent(serving.CLIENT_GONE, 0)
        served.end(sent.status, bytes_sent=sent.bytes)

    async def _answer(self, request: Request, send: Send) -> None:
        try:
            hosts.check(request.scope)
            if request.path == metrics.PATH:
                await http.answer_page(send, request, await self._metrics(request))
            elif request.path == health.HEALTH_PATH:
                await http.answer_plain(send, request, {"status": "ok"})
            elif request.path == health.READY_PATH:
                await http.answer_plain(send, request, await self._readiness())
            else:
                await http.answer(send, request, await self._route(request))
        except http.Disconnected:
            return
        except Exception as raised:  # the edge of a request: there always is an answer
            error = problems.translate(raised)
            if isinstance(error, errors.Internal):
                log.exception("%s %s %s failed", request.id, request.method, request.path)
            await http.answer_problem(send, request, error)

    async def _route(self, request: Request) -> Message:
        methods = ROUTES.get(request.path)
        if methods is None:
            raise errors.NotFound(f"There is nothing at this path; agents use {PREFIX}/….")
        handler = methods.get(request.method)
        if handler is None:
            raise errors.MethodNotAllowed(allow=sorted(methods))
        if self.gateway is None:
            raise errors.Unavailable("The gateway is starting.")
        return await handler(self.gateway, request)

    async def _metrics(self, request: Request) -> Page:
        """What the processes of this host count; rows are told by the web processes."""
        authorization = request.header(b"authorization") or None
        # Not with the database's threads: those may all wait for it just now.
        return await asyncio.to_thread(_page, authorization, request.id)

    async def _readiness(self) -> dict[str, object]:
        """Whether new agents could join. Raises: errors.Unavailable, saying why not."""
        if self.gateway is None:
            raise errors.Unavailable("The gateway is starting.")
        found = await health.ready_soon()
        if not found.ready:
            raise errors.Unavailable(found.reason)
        return {"status": "ready", "sessions": len(self.gateway.live)}


def _traced(request: Request, served: Served) -> AbstractContextManager[object]:
    """The agent's own trace goes on.

    Without one, what its call wakes stays in the trace of whoever asked for the work.
    """
    parent = tracing.read(request.header(b"traceparent"))
    if parent is None:
        return nullcontext()
    name = f"{served.method} {served.route}"
    return tracing.entered(name, kind=tracing.Kind.SERVER, parent=parent, request_id=request.id)


def _page(authorization: str | None, request_id: str) -> Page:
    try:
        return metrics_page.answer(authorization, request_id, rows=False)
    finally:
        connection.close()  # opened for an operator's token only


def _route_of(path: str) -> str:
    return path if path in ROUTES or path in QUIET else serving.UNMATCHED


application = Application()
