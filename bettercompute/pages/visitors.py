"""Who looks at a page: a signed-in account, the tenant it acts for, its zone, and the instant.

Every console view takes a ``Visitor``; ``required`` makes one or sends the person to sign in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Concatenate, ParamSpec
from zoneinfo import ZoneInfo

import structlog
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseRedirectBase
from django.shortcuts import redirect, resolve_url

from bettercompute import acts, clock, errors
from bettercompute.iam import callers
from bettercompute.iam.callers import Caller, Identity, Seat
from bettercompute.pages import failures, zones
from bettercompute.pages.readers import Reader

TENANT = "tenant"  # the session's choice, for those who belong to several
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who looks at the console on behalf of a tenant."""

    caller: Caller
    tenant_name: str
    seats: tuple[Seat, ...]
    zone: ZoneInfo
    now: datetime

    @property
    def reader(self) -> Reader:
        """When and where this one reads."""
        return Reader(self.now, self.zone)


def required(
    view: Callable[Concatenate[HttpRequest, Visitor, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """A view that only a member of a tenant gets to; a use case's refusal becomes a page."""

    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.is_authenticated:
            return _sign_in(request)
        visitor = _visitor(request)
        if visitor is None:
            return _homeless(request)
        request.visitor = visitor  # type: ignore[attr-defined]  # read by rendering
        try:
            _refuse_nul(request)
            return view(request, visitor, *args, **kwargs)
        except errors.ApiError as error:
            return failures.of_error(request, error)

    return guarded


def _refuse_nul(request: HttpRequest) -> None:
    """No column can hold it; in addresses it is refused before any view (``web.requests``)."""
    for name, values in request.POST.lists():
        if any("\x00" in text for text in [name, *values]):
            raise errors.InvalidInput.at(name.replace("\x00", "\\u0000"), "must not have NUL")


def _sign_in(request: HttpRequest) -> HttpResponse:
    """To the sign-in page and back; a fragment's request takes the whole page there."""
    if request.headers.get("HX-Request") != "true":
        return redirect_to_login(request.get_full_path())
    response = HttpResponse(status=204)
    response["HX-Redirect"] = resolve_url("login")
    return response


def _visitor(request: HttpRequest) -> Visitor | None:
    identity = callers.of_account(request.user)  # type: ignore[arg-type]  # checked above
    acts.identify(callers.actor(identity))
    seat = _seat(identity, request.session.get(TENANT))
    if seat is None:
        return None
    structlog.contextvars.bind_contextvars(account_id=identity.account_id, tenant_id=seat.tenant_id)
    return Visitor(
        caller=callers.for_tenant(identity, seat.tenant_id),
        tenant_name=seat.name,
        seats=identity.seats,
        zone=zones.of_person(identity.time_zone, request.COOKIES.get(zones.COOKIE)),
        now=clock.now(),
    )


def _seat(identity: Identity, chosen: str | None) -> Seat | None:
    """The chosen tenant, else the first by name."""
    first = next(iter(identity.seats), None)
    return next((seat for seat in identity.seats if seat.tenant_id == chosen), first)


def _homeless(request: HttpRequest) -> HttpResponse | HttpResponseRedirectBase:
    """Operators work in the admin; anybody else needs a tenant first."""
    if callers.is_operator(request.user):  # type: ignore[arg-type]  # signed in
        return redirect("admin:index")
    return failures.page(
        request,
        403,
        "You belong to no tenant yet",
        "Ask an admin of your tenant, or an operator, to add you. Then reload this page.",
    )
