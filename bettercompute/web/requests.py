"""What every request has: an id, a place in the logs, and an answer even where Django has none."""

import re
from collections.abc import Callable

import structlog
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from bettercompute import acts, ids, outages, redaction
from bettercompute.acts import Act
from bettercompute.audit import entries
from bettercompute.errors import InvalidInput
from bettercompute.telemetry import tracing
from bettercompute.web import origins, pages, problems, serving
from bettercompute.web.serving import Served

log = structlog.get_logger(__name__)

HEADER = "X-Request-Id"
_ACCEPTED_ID = re.compile(r"[A-Za-z0-9._-]{8,64}\Z")


class RequestContextMiddleware:
    """First of the chain: whatever fails inside has its request id already."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Give the request its id and its trace, and say the id in the answer."""
        identifier = identify(request.META.get("HTTP_X_REQUEST_ID"))
        request.request_id = identifier  # type: ignore[attr-defined]
        structlog.contextvars.clear_contextvars()
        served: Served | None = request.META.get(serving.ENVIRON)
        alone = served is None
        if served is None:
            served = Served("web", request.method or "", request.path)
        parent = tracing.read(request.META.get("HTTP_TRACEPARENT"))
        tracked = tracing.entered(
            "request", kind=tracing.Kind.SERVER, parent=parent, request_id=identifier
        )
        with tracked as span, acts.under_way(Act(origins.of(request, identifier))) as act:
            response = self.get_response(request)
            _conclude(act)
            served.describe(request)
            _describe(span, served, response.status_code)
        response[HEADER] = identifier
        if alone:
            served.end(response.status_code, bytes_sent=_length(response))
        return response

    def process_exception(self, request: HttpRequest, exc: Exception) -> HttpResponse | None:
        """A page whose database is away says so; all else goes on to the 500 page."""
        if not outages.is_outage(exc):
            return None
        if problems.wants_problem(request.path):
            return problems.answer(exc, request)
        return pages.unavailable(request)


class RefuseNulMiddleware:
    """NUL in a path or query reaches no view: no column can hold it.

    It stands behind those that add headers, so that a refusal has them too.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """The answer, or the refusal."""
        where = _place_of_nul(request)
        if where is None:
            return self.get_response(request)
        if problems.wants_problem(request.path):
            return problems.answer(InvalidInput.at(where, "must not have NUL"), request)
        return pages.bad_request(request)


def _conclude(act: Act) -> None:
    """Tell the audit what was refused. It is refused, whether the audit can be written or not."""
    try:
        entries.conclude(act)
    except Error:
        log.exception("a refusal is not in the audit", action=act.name)


def _place_of_nul(request: HttpRequest) -> str | None:
    """``path``, or the name of the query parameter that has the NUL."""
    if "\x00" in request.path:
        return "path"
    if "%00" not in request.META.get("QUERY_STRING", ""):
        return None
    for name, values in request.GET.lists():
        if any("\x00" in text for text in [name, *values]):
            return name.replace("\x00", "\\u0000")
    return None


def _describe(span: tracing.Span, served: Served, status: int) -> None:
    span.name(f"{served.method} {served.route}")
    span.set("http.request.method", served.method)
    span.set("http.route", served.route)
    span.set("http.response.status_code", status)
    for name, value in served.who.items():
        span.set(f"better_compute.{name}", value)


def _length(response: HttpResponseBase) -> int:
    return 0 if response.streaming else len(getattr(response, "content", b""))


def identify(presented: str | None) -> str:
    """The client's own id where it is harmless, else a fresh one."""
    if presented is not None and _ACCEPTED_ID.match(presented) and not _is_secret(presented):
        return presented
    return ids.new("req")


def _is_secret(text: str) -> bool:
    """Ids stay in the log and the audit, and are shown to whoever may read those."""
    return bool(redaction.scrub(text) != text)
