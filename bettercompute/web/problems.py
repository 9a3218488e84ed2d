"""Every error as ``application/problem+json`` (A3, RFC 9457), whatever raised it and wherever.

``type`` is a path of this server, ``/docs/errors#conflict``: stable, and a page to read.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from django.core.exceptions import (
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions as drf

from bettercompute import acts, errors, outages

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 1
#: Requests under these prefixes are answered in JSON, errors included.
PREFIXES = ("/api/", "/node/", "/feeds/")


def wants_problem(path: str) -> bool:
    """Whether an error at this path is answered as problem+json rather than as a page."""
    return path.startswith(PREFIXES)


def handle(exc: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """The exception handler of all API views."""
    request = context.get("request")
    return answer(exc, None if request is None else getattr(request, "_request", request))


def answer(exc: Exception, request: HttpRequest | None) -> HttpResponse:
    """The problem document of any exception; an unexpected one is logged with its request id."""
    error = translate(exc)
    acts.refused(error)
    if isinstance(error, errors.Internal):
        log.error("request failed", exc_info=exc)
    elif isinstance(error, errors.Unavailable) and not isinstance(exc, errors.ApiError):
        log.warning("request unavailable", reason=type(exc).__name__, error=str(exc)[:200])
    return response(error, request_id(request))


def response(error: errors.ApiError, identifier: str) -> HttpResponse:
    """A problem document with its headers."""
    answered = HttpResponse(body(error, identifier), status=error.status, content_type=MEDIA_TYPE)
    for name, value in headers(error).items():
        answered[name] = value
    return answered


def body(error: errors.ApiError, identifier: str) -> bytes:
    """The document itself, shared with the ASGI side."""
    document = {
        "type": type_of(type(error)),
        "title": error.title,
        "status": error.status,
        "detail": error.message,
        "code": error.code,
        "details": dict(error.details),
        "requestId": identifier,
    }
    return json.dumps(document, separators=(",", ":"), default=str).encode()


def headers(error: errors.ApiError) -> dict[str, str]:
    """The headers that go with an error."""
    found = {"Cache-Control": "no-store"}
    if error.status == errors.Unauthenticated.status:
        found["WWW-Authenticate"] = 'Bearer realm="better-compute"'
    if isinstance(error, errors.Unavailable | errors.RateLimited):
        seconds = error.details.get("retryAfterSeconds", RETRY_AFTER_SECONDS)
        found["Retry-After"] = str(seconds)
    if isinstance(error, errors.MethodNotAllowed) and "allow" in error.details:
        found["Allow"] = ", ".join(error.details["allow"])
    return found


def type_of(error: type[errors.ApiError]) -> str:
    """The stable URI of a code, relative to this server."""
    return f"/docs/errors#{error.code.lower().replace('_', '-')}"


def request_id(request: HttpRequest | None) -> str:
    """The id that the middleware gave the request."""
    return str(getattr(request, "request_id", ""))


def translate(exc: Exception) -> errors.ApiError:
    """Which of our errors an exception is."""
    if isinstance(exc, errors.ApiError):
        return exc
    if outages.is_outage(exc):
        return errors.Unavailable()
    for kinds, meant in _MEANINGS:
        if isinstance(exc, kinds):
            return meant(exc)
    if isinstance(exc, drf.APIException) and exc.status_code < 500:
        return errors.InvalidInput(str(exc.detail))
    return errors.Internal()


def _throttled(exc: Exception) -> errors.ApiError:
    wait = getattr(exc, "wait", None)
    return errors.RateLimited(retryAfterSeconds=int(wait or RETRY_AFTER_SECONDS))


#: What frameworks raise, and what we say; the first that fits.
_MEANINGS: tuple[
    tuple[type[Exception] | tuple[type[Exception], ...], Callable[[Exception], errors.ApiError]],
    ...,
] = (
    ((Http404, drf.NotFound), lambda _: errors.NotFound()),
    (RequestDataTooBig, lambda _: errors.PayloadTooLarge()),
    (drf.MethodNotAllowed, lambda _: errors.MethodNotAllowed()),
    ((drf.NotAuthenticated, drf.AuthenticationFailed), lambda _: errors.Unauthenticated()),
    (drf.PermissionDenied, lambda exc: errors.AccessDenied(str(exc))),
    (drf.NotAcceptable, lambda _: errors.NotAcceptable()),
    (drf.UnsupportedMediaType, lambda _: errors.UnsupportedMediaType()),
    (drf.Throttled, _throttled),
    (PermissionDenied, lambda exc: errors.AccessDenied(str(exc) or "You may not do this.")),
    (SuspiciousOperation, lambda _: errors.InvalidInput("The request is malformed.")),
)
