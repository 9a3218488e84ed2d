"""What a person chooses about the console itself: the zone of its times, the tenant to act for."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from bettercompute.iam import accounts
from bettercompute.pages import visitors, zones
from bettercompute.pages.visitors import Visitor

_YEAR_SECONDS = 365 * 24 * 3600


@require_POST
@visitors.required
def timezone(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """Show times in another zone from now on, in this browser and for this account."""
    response = redirect(_back(request))
    zone = zones.named(request.POST.get("zone", "").strip())
    if zone is None:
        messages.error(
            request,
            "There is no such time zone. Names are such as Europe/Berlin or America/New_York.",
            extra_tags="red",
        )
        return response
    accounts.set_time_zone(visitor.caller, zone.key)
    response.set_cookie(zones.COOKIE, zone.key, max_age=_YEAR_SECONDS, samesite="Lax")
    return response


@require_POST
@visitors.required
def tenant(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """Act for another tenant one belongs to; anything else changes nothing."""
    wanted = request.POST.get("tenant", "")
    if wanted in {seat.tenant_id for seat in visitor.seats}:
        request.session[visitors.TENANT] = wanted
    return redirect("home")


def _back(request: HttpRequest) -> str:
    wanted = request.POST.get("next", "")
    ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()})
    return wanted if ours else resolve_url("home")
