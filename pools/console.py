"""Pages of pools: the list. A pool's own page shows whose bookings are, so it is in the shell."""

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from bettercompute.pages import rendering, visitors
from bettercompute.pages.visitors import Visitor
from pools import presentation, supply
from pools.supply import Supply


@require_safe
@visitors.required
def listing(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """Where the visitor may book, and how much is free."""
    page = presentation.ListPage(rows(visitor))
    return rendering.render(request, "pools/list.html", page, section="pools")


def rows(visitor: Visitor) -> tuple[presentation.Row, ...]:
    """The visitor's pools with what is free of them now and over the next two days."""
    return _rows(visitor, supply.bookable(visitor.caller))


def row(visitor: Visitor, one: Supply) -> presentation.Row:
    """The same of one pool."""
    (only,) = _rows(visitor, [one])
    return only


def _rows(visitor: Visitor, supplies: Sequence[Supply]) -> tuple[presentation.Row, ...]:
    booked = supply.booked(supplies, start=visitor.now, end=visitor.now + presentation.SPARK)
    return tuple(
        presentation.row(one, booked[one.id], now=visitor.now, zone=visitor.zone)
        for one in supplies
    )
