"""The console's pages of series: the list, one with its occurrences, and giving it up."""

from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_safe

from bettercompute import acts, clock, errors
from bettercompute.pages import parts, rendering, visitors
from bettercompute.pages.visitors import Visitor
from bettercompute.wire.base import MILLISECONDS_MAX
from pools import supply
from reservations.confirming import lookups
from reservations.pages import calendar
from reservations.series import cancelling, pages, queries
from reservations.series.queries import Filters


@require_safe
@visitors.required
def index(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """Recurring reservations of the visitor or of the tenant, newest first."""
    scope = "all" if request.GET.get("scope") == "all" else "mine"
    cursor = request.GET.get("cursor") or None
    found = queries.page(visitor.caller, Filters(scope), cursor=cursor)
    page = pages.listing(
        found.items,
        scope=scope,
        tenant_name=visitor.tenant_name,
        next_cursor=found.next_cursor,
        pools=_pools(visitor),
        now=visitor.now,
        zone=visitor.zone,
    )
    return rendering.render(request, "series/list.html", page, section="series")


@require_safe
@visitors.required
def detail(request: HttpRequest, visitor: Visitor, series_id: str) -> HttpResponse:
    """One series, with what became of each occurrence."""
    return _detail(request, visitor, series_id)


def _detail(
    request: HttpRequest,
    visitor: Visitor,
    series_id: str,
    *,
    notice: parts.Notice | None = None,
) -> HttpResponse:
    shown = queries.get(visitor.caller, series_id)
    names = calendar.named(pool_ids=[shown.pool_id], owner_ids=[shown.owner_identity_id])
    page = pages.page(
        shown,
        names=names,
        now=visitor.now,
        zone=visitor.zone,
        sees_ask=lookups.sees(visitor.caller, shown.confirmation_id),
        notice=notice,
    )
    return rendering.render(
        request,
        "series/detail.html",
        page,
        section="series",
        status=409 if notice else 200,
    )


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def cancel(request: HttpRequest, visitor: Visitor, series_id: str) -> HttpResponse:
    """Ask whether to cancel it, all or from an occurrence on; a post does."""
    since = _since(request)
    refusal = ""
    if request.method == "POST":
        try:
            cancelling.cancel(visitor.caller, series_id=series_id, since=since)
        except (errors.InvalidState, errors.AccessDenied) as error:
            acts.refused(error)
            refusal = error.message
        else:
            return redirect("series-detail", series_id)
    shown = queries.get(visitor.caller, series_id)
    page = pages.cancelling(shown, since, now=visitor.now, zone=visitor.zone, refusal=refusal)
    return rendering.render(
        request,
        "components/confirm.html",
        page,
        section="series",
        status=409 if refusal else 200,
    )


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def skip(request: HttpRequest, visitor: Visitor, series_id: str) -> HttpResponse:
    """Leave out one occurrence by a post; show the series."""
    if request.method != "POST":
        return _detail(request, visitor, series_id)
    occurrence = _instant(request.POST.get("occurrence", ""))
    try:
        if occurrence is None:
            raise errors.InvalidInput.at("occurrence", "is not given")
        cancelling.skip(visitor.caller, series_id=series_id, occurrence=occurrence)
    except errors.NotFound:
        raise
    except errors.ApiError as error:
        acts.refused(error)
        notice = parts.Notice("Nothing was skipped", error.message, "red")
        return _detail(request, visitor, series_id, notice=notice)
    return redirect("series-detail", series_id)


def _since(request: HttpRequest) -> datetime | None:
    """From which occurrence on; None for all.

    Raises:
        errors.InvalidInput: it is no instant: never is that read as "all".
    """
    given = request.GET.get("from")
    since = _instant(given or "")
    if given is not None and since is None:
        raise errors.InvalidInput.at("from", "must be the start of an occurrence")
    return since


def _pools(visitor: Visitor) -> dict[str, str]:
    return {one.id: one.access.name for one in supply.bookable(visitor.caller)}


def _instant(text: str) -> datetime | None:
    """Epoch milliseconds; what is none counts as absent."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MILLISECONDS_MAX))
    return clock.from_ms(min(int(text), MILLISECONDS_MAX)) if is_number else None
