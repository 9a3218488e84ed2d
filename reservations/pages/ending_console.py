"""The console's pages that release and cancel a reservation."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from bettercompute import acts, errors
from bettercompute.pages import rendering, visitors
from bettercompute.pages.visitors import Visitor
from reservations import ending, queries
from reservations.pages import calendar, ending_page


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def release(request: HttpRequest, visitor: Visitor, reservation_id: str) -> HttpResponse:
    """Ask whether to release it, saying what that means; a post does."""
    return _part_with(request, visitor, reservation_id, ending_page.RELEASE)


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def cancel(request: HttpRequest, visitor: Visitor, reservation_id: str) -> HttpResponse:
    """Ask whether to cancel it, saying what that means; a post does."""
    return _part_with(request, visitor, reservation_id, ending_page.CANCEL)


def _part_with(
    request: HttpRequest, visitor: Visitor, reservation_id: str, verb: ending_page.Verb
) -> HttpResponse:
    refusal = ""
    if request.method == "POST":
        use_case = ending.release if verb is ending_page.RELEASE else ending.cancel
        try:
            use_case(visitor.caller, reservation_id=reservation_id)
        except (errors.InvalidState, errors.AccessDenied) as error:
            acts.refused(error)
            refusal = error.message
        else:
            return redirect("reservation", reservation_id)
    shown = queries.get(visitor.caller, reservation_id)
    page = ending_page.page(
        verb,
        shown,
        calendar.names([shown]),
        now=visitor.now,
        zone=visitor.zone,
        refusal=refusal,
    )
    return rendering.render(
        request,
        "components/confirm.html",
        page,
        section="reservations",
        status=409 if refusal else 200,
    )
