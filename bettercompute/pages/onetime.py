"""What is shown once: a post that makes a secret leads to a page, and only that page shows it.

On the way the secret lies in no row and no session, but in a signed cookie of the browser that
asked for it: sent to that one page, for a minute, and taken away with the first answer. So neither
a reload nor Back makes another secret or brings this one again; static/js/once.js takes it off a
page that is left, which a browser may keep in memory.
"""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from bettercompute.pages.visitors import Visitor

COOKIE = "shown-once"
SECONDS = 60


def lead_to(path: str, *, secret: str, visitor: Visitor) -> HttpResponse:
    """To the page of this path, which shows this visitor the secret."""
    response = redirect(path)
    response.set_signed_cookie(
        COOKIE,
        secret,
        salt=_salt(path, visitor),
        max_age=SECONDS,
        path=path,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )
    return response


def take(request: HttpRequest, *, visitor: Visitor) -> str:
    """The secret that this page is to show now; empty where there is none. Then ``forget`` it."""
    salt = _salt(request.path, visitor)
    return request.get_signed_cookie(COOKIE, default="", salt=salt, max_age=SECONDS) or ""


def forget(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """The answer that has shown it, or found it to be stale."""
    if COOKIE in request.COOKIES:
        response.delete_cookie(COOKIE, path=request.path, samesite="Strict")
    return response


def _salt(path: str, visitor: Visitor) -> str:
    return f"{COOKIE} {path} {visitor.caller.account_id}"
