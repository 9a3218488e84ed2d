"""Home: what I hold now and next, what needs me, and what is free."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from bettercompute import clock
from bettercompute.pages import chips, moments, parts, rendering, repeats, visitors
from bettercompute.pages.visitors import Visitor
from bettercompute.states import ReservationState
from bettercompute.wire.reservations import Reservation
from pools import console as pools
from pools.presentation import Row as PoolRow
from reservations import queries
from reservations.pages import calendar, presentation
from reservations.pages.presentation import Row as ReservationRow
from reservations.queries import Filters
from reservations.series import queries as series
from reservations.series.queries import Outline

SHOWN_MAX = 20
_HELD = (ReservationState.BINDING, ReservationState.ACTIVE)


@dataclass(frozen=True, slots=True)
class Page:
    """All of the home page."""

    headline: str
    subline: str
    attention: tuple[parts.Notice, ...]
    holdings: tuple[ReservationRow, ...]
    pools: tuple[PoolRow, ...]


@require_safe
@visitors.required
def home(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The first page after signing in."""
    shown = Filters(states=chips.LIVE, folds_series=True)
    found = queries.page(visitor.caller, shown, limit=SHOWN_MAX)
    items = sorted(found.items, key=_soonest)
    repeating = {item.series_id for item in items if item.series_id is not None}
    outlines = series.outlines(repeating, chips.LIVE)
    names = calendar.names(items)
    page = Page(
        headline=_headline(items),
        subline=_subline(items, visitor),
        attention=tuple(n for item in items for n in presentation.attention(item, names)),
        holdings=tuple(
            presentation.row(
                item,
                names,
                now=visitor.now,
                zone=visitor.zone,
                series=_series(item, outlines.get(item.series_id or "")),
            )
            for item in items
        ),
        pools=pools.rows(visitor),
    )
    return rendering.render(request, "console/home.html", page, section="home")


def _soonest(item: Reservation) -> tuple[bool, int, str]:
    """What has a window first, by its start."""
    return item.during is None, item.during.start if item.during else item.created_at, item.id


def _series(item: Reservation, outline: Outline | None) -> parts.Link | None:
    """What repeats is one line: its next occurrence, and how many more there are."""
    if outline is None:
        return None
    more = f", {outline.count - 1:,} more" if outline.count > 1 else ""
    href = reverse("series-detail", args=[item.series_id])
    return parts.Link(href, f"{repeats.text(outline.rule)}{more}")


def _headline(items: Sequence[Reservation]) -> str:
    held = [item for item in items if item.state in _HELD]
    devices = sum(len(allocation.device_ids) for item in held for allocation in item.allocations)
    return f"You hold {parts.count(devices, 'device')}" if devices else "You hold nothing now"


def _subline(items: Sequence[Reservation], visitor: Visitor) -> str:
    ahead = [
        clock.from_ms(item.during.start)
        for item in items
        if item.state is ReservationState.PLACED and item.during
    ]
    ahead = [start for start in ahead if start > visitor.now]
    if not ahead:
        return visitor.tenant_name
    begins = moments.relative(min(ahead), now=visitor.now)
    return f"{visitor.tenant_name}. Your next reservation begins {begins}."
