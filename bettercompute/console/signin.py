"""Signing in and out with a username and a password."""

from dataclasses import dataclass, replace

from django.conf import settings
from django.contrib import auth
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from bettercompute import acts, errors
from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.errors import RateLimited
from bettercompute.iam import accounts, callers
from bettercompute.pages import rendering
from bettercompute.web import limits, problems

WRONG = "That username and password do not belong together. Check both, also capitals."
TEXT_MAX = 256
SIGN_IN, SIGN_OUT = "iam:accounts:sign-in", "iam:accounts:sign-out"


@dataclass(frozen=True, slots=True)
class Page:
    """The sign-in form."""

    action: str
    username: str = ""
    error: str = ""


@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """The form, and its answer: on to where the person was going."""
    onward = _onward(request)
    action = f"{resolve_url('login')}?{urlencode({'next': onward})}"
    if request.method != "POST":
        if request.user.is_authenticated:
            return redirect(onward)
        return rendering.render(request, "console/login.html", Page(action))
    username = _text(request, "username")
    try:
        limits.count_attempt(request)  # before the password is tried: this bounds guessing
    except RateLimited as error:
        return _too_many(request, Page(action, username), error)
    account = auth.authenticate(request, username=username, password=_text(request, "password"))
    if account is None:
        # Whatever else was typed may be a password in the wrong field.
        acts.attempt(SIGN_IN, Thing("account", accounts.id_of(username)))
        acts.refused(errors.Unauthenticated(WRONG))
        page = Page(action, username, WRONG)
        return rendering.render(request, "console/login.html", page, status=400)
    with transaction.atomic():
        auth.login(request, account)
        acts.identify(callers.actor(callers.of_account(account)))
        entries.record(SIGN_IN, Thing("account", account.pk), tenant_id="")
    return redirect(onward)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    with transaction.atomic():
        if request.user.is_authenticated:
            acts.identify(callers.actor(callers.of_account(request.user)))
            entries.record(SIGN_OUT, Thing("account", request.user.pk), tenant_id="")
        auth.logout(request)
    return redirect("login")


def _too_many(request: HttpRequest, page: Page, error: RateLimited) -> HttpResponse:
    seconds = error.details["retryAfterSeconds"]
    said = f"There were too many attempts from your address. Try again in {seconds} s."
    answered = rendering.render(
        request, "console/login.html", replace(page, error=said), status=error.status
    )
    for name, value in problems.headers(error).items():
        answered[name] = value
    return answered


def _text(request: HttpRequest, name: str) -> str:
    """What was typed; no account's name holds a NUL, and no column could."""
    return request.POST.get(name, "")[:TEXT_MAX].replace("\0", "")


def _onward(request: HttpRequest) -> str:
    """Where to go afterwards: only ever a page of ours."""
    wanted = request.GET.get("next", "")
    ours = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if ours else resolve_url(settings.LOGIN_REDIRECT_URL)
