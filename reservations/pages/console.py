"""Pages of reservations: the form with its preview, one reservation and its verbs, the list."""

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from bettercompute import acts, errors
from bettercompute.pages import parts, rendering, visitors
from bettercompute.pages.visitors import Visitor
from bettercompute.wire.reservations import KEY_MAX, ExtendRequest, Reservation
from pools import supply
from pools.supply import Supply
from reservations import admission, queries, renewal
from reservations.confirming import lookups
from reservations.extending import extension
from reservations.pages import (
    alternatives_panel,
    calendar,
    extending_page,
    form,
    judged_form,
    listing,
    presentation,
)
from reservations.pages.form import Entry, Parsed
from reservations.pages.preview_panel import Panel
from reservations.pages.stations import Life

_KEY_BYTES = 18


@dataclass(frozen=True, slots=True)
class ReservePage:
    """The form, what came of it, and its preview."""

    form: form.View
    preview: Panel
    banner: parts.Notice | None = None


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def reserve(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The form; a post reserves, and once only however often the same form is sent."""
    supplies = supply.bookable(visitor.caller)
    if request.method != "POST":
        entry = replace(form.read(request.GET.dict(), supplies=supplies), key=_fresh_key())
        return _form(request, visitor, entry, supplies)
    entry = form.read(request.POST.dict(), supplies=supplies)
    if not entry.key:
        return _keyless(request, visitor, entry, supplies)
    parsed = _parse(visitor, entry)
    if parsed.request is None:
        return _form(request, visitor, entry, supplies, status=400)
    try:
        admitted = admission.admit(visitor.caller, parsed.request, idempotency_key=entry.key)
    except errors.NotFound:
        raise
    except errors.ApiError as error:
        acts.refused(error)
        return _refusal(request, visitor, entry, supplies, error)
    return redirect("reservation", admitted.reservation_id)


@require_POST
@visitors.required
def preview(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """What the form as it stands would get; without HTMX the whole page with that in it."""
    supplies = supply.bookable(visitor.caller)
    entry = form.read(request.POST.dict(), supplies=supplies)
    entry = alternatives_panel.fill(
        entry, request.POST.get(alternatives_panel.TAKE, ""), visitor=visitor
    )
    return _form(request, visitor, entry, supplies, part="reservations/_preview.html")


def _form(
    request: HttpRequest,
    visitor: Visitor,
    entry: Entry,
    supplies: Sequence[Supply],
    *,
    banner: parts.Notice | None = None,
    wrong: dict[str, str] | None = None,
    part: str = "",
    status: int = 200,
) -> HttpResponse:
    parsed = _parse(visitor, entry)
    page = ReservePage(
        form=form.view(entry, {**parsed.wrong, **(wrong or {})}, supplies=supplies),
        preview=judged_form.panel(
            visitor, parsed, entry.pool, other_times=alternatives_panel.ASK in request.POST
        ),
        banner=banner,
    )
    return rendering.render(
        request,
        "reservations/reserve.html",
        page,
        section="reserve",
        part=part,
        status=status,
    )


def _parse(visitor: Visitor, entry: Entry) -> Parsed:
    return form.parse(entry, tenant_id=visitor.caller.tenant_id, now=visitor.now, zone=visitor.zone)


def _keyless(
    request: HttpRequest, visitor: Visitor, entry: Entry, supplies: Sequence[Supply]
) -> HttpResponse:
    """Without a key nothing could tell a second click from a second wish."""
    banner = parts.Notice(
        "Nothing was booked", "The form came without its key. Send it again.", "red"
    )
    entry = replace(entry, key=_fresh_key())
    return _form(request, visitor, entry, supplies, banner=banner, status=400)


def _refusal(
    request: HttpRequest,
    visitor: Visitor,
    entry: Entry,
    supplies: Sequence[Supply],
    error: errors.ApiError,
) -> HttpResponse:
    """The form again, with what the use case said and where.

    A refused key stays refused and a used one keeps its request (R8), so the form gets a fresh one:
    what is sent next is a new intent. Only where nothing was decided does the old key go on.
    """
    wrong = form.wrong_of(error) if isinstance(error, errors.InvalidInput) else {}
    if not isinstance(error, errors.Unavailable):
        entry = replace(entry, key=_fresh_key())
    return _form(
        request,
        visitor,
        entry,
        supplies,
        banner=_banner(error, wrong.pop("", "")),
        wrong=wrong,
        status=error.status,
    )


def _banner(error: errors.ApiError, general: str) -> parts.Notice:
    """What the use case said, above the form."""
    if isinstance(error, errors.InvalidInput):
        return parts.Notice("Nothing was booked", general or "See what is marked below.", "red")
    earlier = error.details.get("reservationId")
    if isinstance(error, errors.Conflict) and earlier:
        return parts.Notice(
            title="This form has booked already",
            text="Send it again to book once more with what it says now.",
            href=reverse("reservation", args=[earlier]),
            action="Show what it booked",
        )
    return parts.Notice("Nothing was booked", error.message, "red")


def _fresh_key() -> str:
    return f"console-{secrets.token_urlsafe(_KEY_BYTES)}"


@require_safe
@visitors.required
def detail(request: HttpRequest, visitor: Visitor, reservation_id: str) -> HttpResponse:
    page = _page(request, visitor, reservation_id)
    return rendering.render(request, "reservations/detail.html", page, section="reservations")


@require_safe
@visitors.required
def status(request: HttpRequest, visitor: Visitor, reservation_id: str) -> HttpResponse:
    """The part of the page that changes; nothing at all while it has not."""
    page = _page(request, visitor, reservation_id)
    if request.GET.get("seen") == page.digest:
        return HttpResponse(status=204)
    return rendering.render(
        request,
        "reservations/detail.html",
        page,
        section="reservations",
        part="reservations/_status.html",
    )


def _page(request: HttpRequest, visitor: Visitor, reservation_id: str) -> presentation.Page:
    row, shown = queries.look(visitor.caller, reservation_id)
    asked = lookups.seen(visitor.caller, shown.confirmation_id)
    return presentation.page(
        shown,
        Life(row.placed_at, row.bound_at, row.ended_at),
        calendar.names([shown]),
        now=visitor.now,
        zone=visitor.zone,
        origin=request.build_absolute_uri("/").rstrip("/"),
        shares=visitor.caller.role == "admin" or row.owner_id == visitor.caller.account_id,
        sees_ask=asked is not None,
        answer="" if asked is None else asked.reason,
    )


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def extend(request: HttpRequest, visitor: Visitor, reservation_id: str) -> HttpResponse:
    """Ask how much longer, saying how far it could go; a post extends, and once a form."""
    more, key = request.POST.get("more", "").strip()[:100], request.POST.get("key", "")
    error, notice = "", None
    if request.method == "POST":
        asked = extending_page.read(more, now=visitor.now, zone=visitor.zone)
        error = asked.error
        if not error:
            try:
                made = _extend(visitor, reservation_id, asked, key)
            except (errors.Conflict, errors.InvalidState, errors.AccessDenied) as refusal:
                acts.refused(refusal)
                notice = parts.Notice("It was not extended", refusal.message, "red")
            except errors.InvalidInput as refusal:
                error = refusal.details["errors"][0]["message"]
            else:
                if made.extended:
                    return redirect("reservation", reservation_id)
                notice = extending_page.not_extended(made.available_until is not None)
    return _extend_page(request, visitor, reservation_id, more=more, error=error, notice=notice)


def _extend(
    visitor: Visitor, reservation_id: str, asked: extending_page.Asked, key: str
) -> extension.Extended:
    wanted = ExtendRequest(tenant_id=visitor.caller.tenant_id, by=asked.by_ms, until=asked.until_ms)
    return extension.extend(
        visitor.caller,
        wanted,
        reservation_id=reservation_id,
        idempotency_key=key[:KEY_MAX] or _fresh_key(),
    )


def _extend_page(
    request: HttpRequest,
    visitor: Visitor,
    reservation_id: str,
    *,
    more: str,
    error: str,
    notice: parts.Notice | None,
) -> HttpResponse:
    shown = queries.get(visitor.caller, reservation_id)
    if not presentation.may_extend(shown, visitor.now):
        return redirect("reservation", reservation_id)
    page = extending_page.page(
        shown,
        calendar.names([shown]),
        available_until=extension.available_until(visitor.caller, reservation_id=reservation_id),
        now=visitor.now,
        zone=visitor.zone,
        key=_fresh_key(),
        more=more if error else "",
        error=error,
        notice=notice,
    )
    status = 400 if error else 409 if notice else 200
    return rendering.render(
        request, "reservations/extend.html", page, section="reservations", status=status
    )


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def renew(request: HttpRequest, visitor: Visitor, reservation_id: str) -> HttpResponse:
    """Renew its lease by a post, and show it."""
    queries.access(visitor.caller, reservation_id)
    if request.method == "POST":
        with suppress(errors.InvalidState):  # it has ended meanwhile, as its page says
            renewal.renew(visitor.caller, reservation_id=reservation_id)
    return redirect("reservation", reservation_id)


@require_safe
@visitors.required
def index(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """Reservations of the visitor or of the tenant, newest first."""
    choice = listing.read(request.GET.dict())
    found = queries.page(visitor.caller, choice.filters, cursor=choice.cursor or None)
    page = listing.page(
        choice,
        rows(visitor, found.items, with_owner=choice.scope != "mine"),
        tenant_name=visitor.tenant_name,
        pools=[(one.id, one.access.name) for one in supply.bookable(visitor.caller)],
        next_cursor=found.next_cursor,
    )
    return rendering.render(
        request,
        "reservations/list.html",
        page,
        section="reservations",
        part="reservations/_results.html",
    )


def rows(
    visitor: Visitor, items: Sequence[Reservation], *, with_owner: bool = False
) -> list[presentation.Row]:
    names = calendar.names(items)
    return [
        presentation.row(item, names, now=visitor.now, zone=visitor.zone, with_owner=with_owner)
        for item in items
    ]
