"""One request from its arrival to its end: counted, timed, and one line in the log.

The server (``asgi``, the gateway) begins it and ends it, since only it knows how long a request
waited for a thread, and what was sent in the end. Django, in between, says what the request was:
its route, its id, who asked. Where Django runs alone (WSGI, tests) its middleware does both.
"""

import contextlib
import functools
import logging
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import structlog
from django.conf import settings
from django.http import HttpRequest

from bettercompute.telemetry import metrics

log = structlog.get_logger("bettercompute.access")

#: Where a WSGI environment has the request's ``Served``.
ENVIRON = "bettercompute.served"
UNMATCHED = "(unmatched)"  # no route of ours
REFUSED = "(refused)"  # by its headers or size, before it was looked for a route
CLIENT_GONE = 499

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
_TOLD = ("request_id", "trace_id", "tenant_id", "account_id", "token_id")


@dataclass(slots=True)
class Served:
    """What is known of a request; a path is for the log only, and never a label."""

    server: str
    method: str
    path: str
    route: str = REFUSED
    who: dict[str, str] = field(default_factory=dict)
    level: int = logging.INFO
    began: float = field(default_factory=time.perf_counter)
    waited: float = 0.0  # as its client asked for: no part of how long we took

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """What its client wants to wait for."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.waited += time.perf_counter() - began

    def describe(self, request: HttpRequest) -> None:
        """What Django found out, while its context still stands."""
        self.route = route_of(request)
        self.remember()
        signed_in = getattr(request, "_cached_user", None)  # found already: asks no database
        account_id = getattr(signed_in, "pk", None)
        if account_id:
            self.who.setdefault("account_id", str(account_id))

    def remember(self) -> None:
        """Who asks, by what stands in every line of log now."""
        known = structlog.contextvars.get_contextvars()
        self.who = {name: known[name] for name in _TOLD if known.get(name)}

    def end(self, status: int, *, bytes_sent: int = 0) -> None:
        """It is over: count it, and say so."""
        seconds = time.perf_counter() - self.began - self.waited
        method = self.method if self.method in _METHODS else "other"
        metrics.REQUESTS.labels(self.server, method, self.route, str(status)).inc()
        metrics.REQUEST_SECONDS.labels(self.server, method, self.route).observe(seconds)
        log.log(
            self.level,
            "served",
            server=self.server,
            method=method,
            path=self.path,
            route=self.route,
            status=status,
            duration_ms=round(seconds * 1_000, 1),
            **({"waited_ms": round(self.waited * 1_000, 1)} if self.waited else {}),
            bytes=bytes_sent,
            **self.who,
        )


def route_of(request: HttpRequest) -> str:
    """The template of a request's path: ``/api/v1/pools/{pool_id}``."""
    match = request.resolver_match
    if match is not None:
        return template(match.route)
    static = "/" + settings.STATIC_URL.strip("/") + "/"
    return static if request.path.startswith(static) else UNMATCHED


@functools.lru_cache(maxsize=1_000)
def template(route: str) -> str:
    """Django's ``api/v1/pools/<str:pool_id>`` as a template of a path."""
    return "/" + _PARAMETER.sub(r"{\1}", route).lstrip("/")
