"""The console's page of who may use a reservation."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from bettercompute import acts, errors
from bettercompute.iam import memberships
from bettercompute.pages import parts, rendering, visitors
from bettercompute.pages.visitors import Visitor
from reservations import queries, sharing
from reservations.pages import calendar, sharing_page
from reservations.pages.sharing_page import Person
from reservations.sharing import Change

MEMBERS_SHOWN_MAX = 1_000


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def users(request: HttpRequest, visitor: Visitor, reservation_id: str) -> HttpResponse:
    """Who may use it; a post lets members use it, or not any more."""
    notice = None
    if request.method == "POST":
        try:
            _change(request, visitor, reservation_id)
        except (errors.AccessDenied, errors.InvalidState, errors.Conflict) as refusal:
            acts.refused(refusal)
            notice = parts.Notice("Nothing was changed", refusal.message, "red")
        except errors.InvalidInput as refusal:
            notice = parts.Notice("Nothing was changed", _why(refusal), "red")
        else:
            return redirect("reservation-users", reservation_id)
    shown = queries.get(visitor.caller, reservation_id)
    page = sharing_page.page(
        shown, calendar.names([shown]), _members(visitor.caller.tenant_id), notice=notice
    )
    return rendering.render(
        request,
        "reservations/users.html",
        page,
        section="reservations",
        status=409 if notice else 200,
    )


def _change(request: HttpRequest, visitor: Visitor, reservation_id: str) -> None:
    wanted = Change(tuple(request.POST.getlist("add")), tuple(request.POST.getlist("remove")))
    sharing.change(visitor.caller, wanted, reservation_id=reservation_id)


def _why(refusal: errors.InvalidInput) -> str:
    """In a sentence: of one of those named, or of all of them."""
    wrong = refusal.details["errors"][0]
    of_one = wrong["path"].endswith("]")
    return parts.sentence(f"One of them {wrong['message']}" if of_one else wrong["message"])


def _members(tenant_id: str) -> list[Person]:
    found = memberships.of_tenant(tenant_id)[:MEMBERS_SHOWN_MAX]
    return [Person(member.account_id, member.account.username) for member in found]
