"""The console's pages of confirmations: a person answers what their agents ask."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

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
    rows = lookups.visible(visitor.caller)
    mine = rows.filter(account_id=visitor.caller.account_id)
    # Apart, so that a flood of others' hides nothing of one's own.
    others = rows.exclude(account_id=visitor.caller.account_id)
    awaiting = _cards(visitor, _awaiting(mine, visitor))
    approved = _cards(visitor, _live(mine, ConfirmationState.APPROVED, visitor))
    above = [each.id for each in (*awaiting, *approved)]
    earlier = list(mine.exclude(pk__in=above)[:EARLIER_SHOWN_MAX])
    page = Page(
        mine=tuple(awaiting),
        approved=tuple(approved),
        others=tuple(_cards(visitor, _awaiting(others, visitor))),
        earlier=tuple(
            confirmations_page.row(each, about, now=visitor.now, zone=visitor.zone)
            for each, about, _ in _told(earlier)
        ),
    )
    return rendering.render(request, "reservations/confirmations.html", page, section=SECTION)


@require_safe
@visitors.required
def detail(request: HttpRequest, visitor: Visitor, confirmation_id: str) -> HttpResponse:
    """One of them."""
    (card,) = _cards(visitor, [lookups.get(visitor.caller, confirmation_id)])
    return rendering.render(request, "reservations/confirmation.html", card, section=SECTION)


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
def withdraw(request: HttpRequest, visitor: Visitor, confirmation_id: str) -> HttpResponse:
    """Take back what was approved, and not done yet."""
    reason = request.POST.get("reason", "")[:REASON_MAX]
    try:
        found = deciding.withdraw(visitor.caller, confirmation_id=confirmation_id, reason=reason)
    except errors.InvalidState as refusal:
        return _late(request, refusal)
    messages.success(request, f"Withdrawn. {found.agent} may not do it any more.")
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


def _late(request: HttpRequest, refusal: errors.InvalidState) -> HttpResponse:
    """Somebody, or time, was faster than the button."""
    messages.warning(request, refusal.message)
    return redirect("confirmations")


def _awaiting(rows: QuerySet[Confirmation], visitor: Visitor) -> QuerySet[Confirmation]:
    """Those that can be answered, what lapses next first."""
    return _live(rows, ConfirmationState.OPEN, visitor)


def _live(
    rows: QuerySet[Confirmation], state: ConfirmationState, visitor: Visitor
) -> QuerySet[Confirmation]:
    live = rows.filter(state=state, expires_at__gt=visitor.now)
    return live.order_by("expires_at", "pk")[:OPEN_SHOWN_MAX]


def _cards(visitor: Visitor, confirmations: Iterable[Confirmation]) -> list[Card]:
    return [
        confirmations_page.card(
            each,
            replace(about, effect=None if row is None else _effect(row)),
            decides=each.account_id == visitor.caller.account_id,
            now=visitor.now,
            zone=visitor.zone,
        )
        for each, about, row in _told(confirmations)
    ]


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


def _effect(row: Reservation) -> Effect | None:
    """What a create that waits would take of the tenant's quotas."""
    if row.state != ReservationState.AWAITING_CONFIRMATION:
        return None
    access = catalogue.of_tenant(row.tenant_id, row.pool_id)
    request = requests.restore(row.request, tenant_id=row.tenant_id)
    charges = shares.charges(request, shares.resolve(row.host_share, request), access)
    return Effect(quota.after(row.tenant_id, charges, pool_id=row.pool_id), charges)
