"""Errors outside any view: a problem under /api and /node, elsewhere a page.

The pages come from ``templates/errors/<status>.html`` and are given nothing but the request id, so
that they render with the database away. A template that is missing or fails falls back to plain
text: an error page must never be an error.
"""

import sys

import structlog
from django.http import HttpRequest, HttpResponse
from django.template import TemplateDoesNotExist, TemplateSyntaxError, loader

from bettercompute import acts, errors, outages
from bettercompute.acts import Actor
from bettercompute.iam import callers
from bettercompute.web import problems

log = structlog.get_logger(__name__)

_PLAIN = {
    400: "The request is malformed.",
    403: "You may not do this.",
    404: "There is no such page.",
    500: "Something went wrong on our side.",
    503: "The database cannot be reached right now. Try again in a moment.",
}


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """400."""
    return _answer(request, 400, exception or errors.InvalidInput("The request is malformed."))


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """403, which the audit is told of where somebody is signed in."""
    denied = exception or errors.AccessDenied()
    account = getattr(request, "_cached_user", None)  # asking for it may ask the database
    if account is not None and account.is_authenticated:
        name, operator = account.get_username(), callers.is_operator(account)
        acts.identify(Actor(account_id=account.pk, username=name, operator=operator, via="session"))
    acts.refused(problems.translate(denied))
    return _answer(request, 403, denied)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404."""
    return _answer(request, 404, errors.NotFound())


def server_error(request: HttpRequest) -> HttpResponse:
    """500; 503 where a middleware met a database that is away. Django has logged it by now."""
    if outages.is_outage(sys.exception()):
        return unavailable(request)
    return _answer(request, 500, errors.Internal())


def unavailable(request: HttpRequest) -> HttpResponse:
    """503: the database is away."""
    response = _answer(request, 503, errors.Unavailable())
    response["Retry-After"] = str(problems.RETRY_AFTER_SECONDS)
    return response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 of a form without its token: an old tab, or cookies switched off."""
    denied = errors.AccessDenied(f"The CSRF check failed: {reason}", reason="csrf")
    return _answer(request, 403, denied)


def _answer(request: HttpRequest, status: int, exception: Exception) -> HttpResponse:
    if problems.wants_problem(request.path):
        return problems.response(problems.translate(exception), problems.request_id(request))
    context = {"status": status, "request_id": problems.request_id(request)}
    try:
        # Without the request: its context processors would ask the database who is signed in.
        body = loader.get_template(f"errors/{status}.html").render(context)
    except (TemplateDoesNotExist, TemplateSyntaxError):
        plain = f"{_PLAIN[status]}\nRequest {context['request_id']}\n"
        return HttpResponse(plain, status=status, content_type="text/plain; charset=utf-8")
    return HttpResponse(body, status=status)
