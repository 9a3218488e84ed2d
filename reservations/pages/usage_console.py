"""Pages of usage and budgets: the tables, and the same rows as a file."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from bettercompute.pages import rendering, visitors
from bettercompute.pages.visitors import Visitor
from reservations import spending, usage
from reservations.pages import calendar, usage_page
from reservations.pages.presentation import Names
from reservations.pages.usage_page import Choice
from reservations.usage import Row


@require_safe
@visitors.required
def index(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """What the tenant used, by what is chosen, and what its budgets leave."""
    choice, rows = _chosen(request, visitor)
    balances = spending.present(visitor.caller)
    budgeted = {each.budget.pool_id for each in balances if each.budget.pool_id is not None}
    page = usage_page.page(
        choice,
        rows,
        balances,
        _names(rows, budgeted),
        now=visitor.now,
        zone=visitor.zone,
        download=reverse("usage-csv"),
    )
    return rendering.render(request, "reservations/usage.html", page, section="usage")


@require_safe
@visitors.required
def download(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The rows of the page as CSV."""
    choice, rows = _chosen(request, visitor)
    text = usage_page.table(choice, rows, _names(rows))
    return HttpResponse(
        text,
        content_type="text/csv; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="usage-{choice.span}.csv"',
            "Cache-Control": "no-store, private",
        },
    )


def _chosen(request: HttpRequest, visitor: Visitor) -> tuple[Choice, list[Row]]:
    choice = usage_page.read(dict(request.GET.lists()))
    rows = usage.metered(
        visitor.caller,
        start=visitor.now - choice.length,
        end=visitor.now,
        by=choice.by,
        zone=visitor.zone,
    )
    return choice, rows


def _names(rows: list[Row], pool_ids: set[str] | None = None) -> Names:
    return calendar.named(
        pool_ids={row.pool_id for row in rows if row.pool_id is not None} | (pool_ids or set()),
        owner_ids={row.owner_id for row in rows if row.owner_id is not None},
    )
