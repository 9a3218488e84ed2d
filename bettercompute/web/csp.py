"""The Content-Security-Policy of every answer: our own files, no inline code, no frames (U7)."""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

_DIRECTIVES = {
    "default-src": "'self'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",  # the admin's and the API page's icons are data URIs
    "font-src": "'self'",
    "connect-src": "'self'",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
POLICY = "; ".join(f"{name} {sources}" for name, sources in _DIRECTIVES.items())
#: JSON is never rendered; should a browser be talked into it, it may do nothing at all.
API_POLICY = "default-src 'none'; frame-ancestors 'none'"


class ContentSecurityPolicyMiddleware:
    """Adds the header; no view may loosen it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """The answer with its policy."""
        response = self.get_response(request)
        is_json = response.get("Content-Type", "").startswith("application/")
        response["Content-Security-Policy"] = API_POLICY if is_json else POLICY
        response["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()"
        return response
