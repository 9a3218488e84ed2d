"""The console's pages of confirmations: a person answers what their agents ask."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from bettercompute import errors
from bettercompute.pages import rendering, visitors
from bettercompute.pages.visitors import Visitor
from bettercompute.states import ConfirmationState, ReservationState
from bettercompute.wire.confirmations import REASON_MAX
from pools import catalogue, quota, requests, shares
from reservations import queries
from reservations.confirming import deciding, lookups
from reservations.models import Confirmation, Reservation
from reservations.pages import calendar, confirmations_page
from reservations.pages.confirmations_page import About, Card, Effect, Page

SECTION = "confirmations"
OPEN_SHOWN_MAX = 50
EARLIER_SHOWN_MAX = 50


@require_safe
@visitors.required
def index(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """What awaits an answer, and what was answered before."""
    page = _page(visitor)
    return rendering.render(request, "reservations/confirmations.html", page, section=SECTION)


@require_safe
@visitors.required
def status(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The part of it that changes, and the frame's number; nothing at all while it has not."""
    part = "reservations/_confirmations_news.html"
    return _news(request, _page(visitor), whole="reservations/confirmations.html", part=part)


def _page(visitor: Visitor) -> Page:
    rows = lookups.visible(visitor.caller)
    mine = rows.filter(account_id=visitor.caller.account_id)
    # Apart, so that a flood of others' hides nothing of one's own.
    others = rows.exclude(account_id=visitor.caller.account_id)
    awaiting = list(_live(mine, ConfirmationState.OPEN, visitor))
    approved = list(_live(mine, ConfirmationState.APPROVED, visitor))
    theirs = list(_live(others, ConfirmationState.OPEN, visitor))
    above = [each.id for each in (*awaiting, *approved)]
    earlier = list(mine.exclude(pk__in=above)[:EARLIER_SHOWN_MAX])
    cards = _cards(visitor, [*awaiting, *approved, *theirs])
    return Page(
        mine=tuple(cards[each.id] for each in awaiting),
        approved=tuple(cards[each.id] for each in approved),
        others=tuple(cards[each.id] for each in theirs),
        earlier=tuple(
            confirmations_page.row(each, about, now=visitor.now, zone=visitor.zone)
            for each, about, _ in _told(earlier)
        ),
    )


@require_safe
@visitors.required
def detail(request: HttpRequest, visitor: Visitor, confirmation_id: str) -> HttpResponse:
    """One of them."""
    card = _card(visitor, confirmation_id)
    return rendering.render(request, "reservations/confirmation.html", card, section=SECTION)


@require_safe
@visitors.required
def detail_status(request: HttpRequest, visitor: Visitor, confirmation_id: str) -> HttpResponse:
    """The same of one of them."""
    page, part = _card(visitor, confirmation_id), "reservations/_confirmation_news.html"
    return _news(request, page, whole="reservations/confirmation.html", part=part)


def _card(visitor: Visitor, confirmation_id: str) -> Card:
    (card,) = _cards(visitor, [lookups.get(visitor.caller, confirmation_id)]).values()
    return card


def _news(request: HttpRequest, page: Page | Card, *, whole: str, part: str) -> HttpResponse:
    if request.GET.get("seen") == page.digest:
        return HttpResponse(status=204)
    return rendering.render(request, whole, page, section=SECTION, part=part)


@require_POST
@visitors.required
def approve(request: HttpRequest, visitor: Visitor, confirmation_id: str) -> HttpResponse:
    """Let the agent."""
    try:
        found = deciding.approve(visitor.caller, confirmation_id=confirmation_id)
    except errors.InvalidState as refusal:
        return _late(request, refusal)
    messages.success(request, f"Approved. {found.agent} can send its request again now.")
    return redirect("confirmations")


@require_POST
@visitors.required
def deny(request: HttpRequest, visitor: Visitor, confirmation_id: str) -> HttpResponse:
    """Do not let the agent."""
    reason = request.POST.get("reason", "")[:REASON_MAX]
    try:
        found = deciding.deny(visitor.caller, confirmation_id=confirmation_id, reason=reason)
    except errors.InvalidState as refusal:
        return _late(request, refusal)
    messages.success(request, f"Denied. {found.agent} is told so.")
    return redirect("confirmations")


@require_POST
@visitors.required
def withdraw(request: HttpRequest, visitor: Visitor, confirmation_id: str) -> HttpResponse:
    """Take back what was approved, and not done yet."""
    reason = request.POST.get("reason", "")[:REASON_MAX]
    try:
        found = deciding.withdraw(visitor.caller, confirmation_id=confirmation_id, reason=reason)
    except errors.InvalidState as refusal:
        return _late(request, refusal)
    messages.success(request, f"Withdrawn. {found.agent} may not do it any more.")
    return redirect("confirmations")


def _late(request: HttpRequest, refusal: errors.InvalidState) -> HttpResponse:
    """Somebody, or time, was faster than the button."""
    messages.warning(request, refusal.message)
    return redirect("confirmations")


def _live(
    rows: QuerySet[Confirmation], state: ConfirmationState, visitor: Visitor
) -> QuerySet[Confirmation]:
    """Those in this state whose time is not over, what lapses next first."""
    live = rows.filter(state=state, expires_at__gt=visitor.now)
    return live.order_by("expires_at", "pk")[:OPEN_SHOWN_MAX]


def _cards(visitor: Visitor, confirmations: Iterable[Confirmation]) -> dict[str, Card]:
    """Each as a card, by its id."""
    effect = _weighing(visitor.caller.tenant_id)
    return {
        each.id: confirmations_page.card(
            each,
            replace(about, effect=None if row is None else effect(row)),
            decides=each.account_id == visitor.caller.account_id,
            now=visitor.now,
            zone=visitor.zone,
        )
        for each, about, row in _told(confirmations)
    }


def _told(
    confirmations: Iterable[Confirmation],
) -> Iterator[tuple[Confirmation, About, Reservation | None]]:
    """Each with what is known of its reservation, and that where there is one."""
    found = list(confirmations)
    known = {row.id: (row, shown) for row, shown in queries.several([f.resource_id for f in found])}
    users = {key for each in found for key in each.asked.get("users", ())}
    names = calendar.names([shown for _, shown in known.values()], also=users)
    for each in found:
        row, shown = known.get(each.resource_id, (None, None))
        yield each, About(shown, names), row


def _weighing(tenant_id: str) -> Callable[[Reservation], Effect | None]:
    """What a create that waits would take of the tenant's quotas.

    These, and each pool, are read once for all cards of a page, and only where one needs them.
    """
    access_of = cache(partial(catalogue.of_tenant, tenant_id))
    usages_of = cache(quota.usage)

    def effect(row: Reservation) -> Effect | None:
        if row.state != ReservationState.AWAITING_CONFIRMATION:
            return None
        request = requests.restore(row.request, tenant_id=tenant_id)
        share = shares.resolve(row.host_share, request)
        charges = shares.charges(request, share, access_of(row.pool_id))
        after = quota.beyond(usages_of(tenant_id), charges, pool_id=row.pool_id)
        return Effect(after, charges)

    return effect
