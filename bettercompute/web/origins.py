"""Where a request comes from, as the audit tells it."""

from django.http import HttpRequest

from bettercompute.acts import Origin
from bettercompute.web import addresses

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}


def of(request: HttpRequest, identifier: str) -> Origin:
    """Its origin."""
    method = request.method or ""
    return Origin(
        request_id=identifier,
        address=addresses.of_request(request),
        user_agent=request.META.get("HTTP_USER_AGENT", ""),
        asked=f"{method} {request.path}",
        changes=method not in SAFE_METHODS,
    )
