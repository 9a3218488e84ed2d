"""The address that a calendar program reads. No session, no token: the address is the secret."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from bettercompute import errors
from bettercompute.web import etags, limits, methods, problems
from reservations.feeds import document, entries, keeping


@methods.reading
def serve(request: HttpRequest, address: str) -> HttpResponse:
    """The calendar; 304 where the program has it already."""
    try:
        feed = _opened(request, address)
        name, found = entries.read(
            feed, href=lambda key: request.build_absolute_uri(reverse("reservation", args=[key]))
        )
        body = document.written(name, found)
        etag = etags.of_content(body)
        known = etags.is_not_modified(request, etag)
    except errors.ApiError as error:
        return problems.answer(error, request)
    answered = HttpResponse(status=304) if known else HttpResponse(body)
    answered["Content-Type"] = document.MEDIA_TYPE
    answered["ETag"] = etag
    answered["Cache-Control"] = "private, no-cache"
    answered["X-Robots-Tag"] = "noindex"
    # Where a page of ours is opened from it, nobody is told the address.
    answered["Referrer-Policy"] = "no-referrer"
    return answered


def _opened(request: HttpRequest, address: str) -> keeping.Opened:
    """The feed; an address that is none counts as an attempt to guess one (A11)."""
    try:
        return keeping.open_(address)
    except errors.NotFound:
        limits.count_attempt(request)
        raise


def url(request: HttpRequest, address: str) -> str:
    """The whole address, to put into a calendar program."""
    return request.build_absolute_uri(reverse("calendar-feed", args=[address]))
