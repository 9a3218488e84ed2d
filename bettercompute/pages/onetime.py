"""What is shown once: a post that makes a secret leads to a page, and only that page shows it.

On the way the secret lies in no row and no session, but in a signed cookie of the browser that
asked for it: sent to that one page, for a minute, and taken away with the first answer. So neither
a reload nor Back makes another secret or brings this one again; static/js/once.js takes it off a
page that is left, which a browser may keep in memory. The session remembers, by their hashes, the
last secrets that were shown: a form that is sent again still knows its own (``once``).
"""

import hashlib

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from bettercompute.pages.visitors import Visitor

COOKIE = "shown-once"
SECONDS = 60
SHOWN = "shown-once"  # in the session: hashes of what was shown
REMEMBERED = 50


def lead_to(request: HttpRequest, path: str, *, secret: str, visitor: Visitor) -> HttpResponse:
    """To the page of this path, which shows this visitor the secret if it has not been shown.

    Nothing is to be shown where there is none.
    """
    response = redirect(path)
    if not secret or _hash(secret) in request.session.get(SHOWN, []):
        return response
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
    secret = request.get_signed_cookie(COOKIE, default="", salt=salt, max_age=SECONDS) or ""
    if secret:
        shown = [*request.session.get(SHOWN, []), _hash(secret)]
        request.session[SHOWN] = shown[-REMEMBERED:]
    return secret


def forget(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """The answer that has shown it, or found it to be stale."""
    if COOKIE in request.COOKIES:
        response.delete_cookie(COOKIE, path=request.path, samesite="Strict")
    return response


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _salt(path: str, visitor: Visitor) -> str:
    return f"{COOKIE} {path} {visitor.caller.account_id}"
