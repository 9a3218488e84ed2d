"""The console's page of calendar feeds."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from bettercompute import acts, errors
from bettercompute.pages import moments, once, onetime, parts, rendering, visitors
from bettercompute.pages.visitors import Visitor
from pools import supply
from reservations.feeds import addresses, keeping, serving
from reservations.models import CalendarFeed

SHOWN_MAX = 200
PREFIX = "cal"


@dataclass(frozen=True, slots=True)
class Row:
    """A feed that can be read."""

    what: str
    owner: str
    made: moments.Moment
    read: moments.Moment | None
    revoke_href: str


@dataclass(frozen=True, slots=True)
class Page:
    """The feeds there are, the form for another, and the address of one just made."""

    rows: tuple[Row, ...]
    choices: tuple[parts.Option, ...]
    url: str
    notice: parts.Notice | None


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def index(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The feeds; a post makes one and comes back here, where its address is shown once."""
    notice = None
    if request.method == "POST":
        try:
            url = _make(request, visitor)
        except (keeping.TooManyFeeds, errors.InvalidInput) as refusal:
            acts.refused(refusal)
            notice = parts.Notice("No feed was made", refusal.message, "red")
        else:
            return onetime.lead_to(request, request.path, secret=url, visitor=visitor)
    url = onetime.take(request, visitor=visitor)
    live = keeping.visible(visitor.caller).filter(revoked_at=None)[:SHOWN_MAX]
    pools = [(one.id, f"Bookings in {one.access.name}") for one in supply.bookable(visitor.caller)]
    page = Page(
        rows=tuple(_row(feed, visitor) for feed in live),
        choices=parts.options([("", "My reservations and those shared with me"), *pools], ""),
        url=url,
        notice=notice,
    )
    status = 409 if notice else 200
    answer = rendering.render(
        request,
        "reservations/feeds.html",
        page,
        section="calendar-feeds",
        once=once.key(request, PREFIX, visitor),
        status=status,
    )
    return onetime.forget(request, answer)


def _make(request: HttpRequest, visitor: Visitor) -> str:
    """Make the feed that the form asks for; its address, if it can be read there."""
    drawn = once.drawn(request, PREFIX, visitor)
    made = once.make(
        request,
        drawn.id,
        exists=keeping.visible(visitor.caller).filter(pk=drawn.id).exists,
        create=lambda: keeping.create(
            visitor.caller, pool_id=request.POST.get("pool") or None, drawn=drawn
        ),
    )
    address = addresses.of(drawn)
    if not made and not keeping.opens(visitor.caller, address):
        return ""
    return serving.url(request, address.text)


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def revoke(request: HttpRequest, visitor: Visitor, feed_id: str) -> HttpResponse:
    """End a feed by a post, and show those that are left."""
    feed = keeping.get(visitor.caller, feed_id)
    if request.method == "POST":
        keeping.revoke(visitor.caller, feed.pk)
    return redirect("calendar-feeds")


def _row(feed: CalendarFeed, visitor: Visitor) -> Row:
    read = feed.last_read_at
    return Row(
        what="Reservations" if feed.pool is None else f"Bookings in {feed.pool.name}",
        owner=feed.account.username,
        made=moments.moment(feed.created_at, now=visitor.now, zone=visitor.zone),
        read=None if read is None else moments.moment(read, now=visitor.now, zone=visitor.zone),
        revoke_href=reverse("calendar-feed-revoke", args=[feed.pk]),
    )
