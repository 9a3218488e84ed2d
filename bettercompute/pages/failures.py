"""Pages for what a use case refuses: what it was, and what to do."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from bettercompute import acts, errors


def page(request: HttpRequest, status: int, title: str, advice: str) -> HttpResponse:
    """A refusal as a page of its own."""
    context = {
        "status": status,
        "title": title,
        "advice": advice,
        "theme": request.COOKIES.get("theme", ""),
        "request_id": getattr(request, "request_id", ""),
    }
    return render(request, "errors/refused.html", context, status=status)


def of_error(request: HttpRequest, error: errors.ApiError) -> HttpResponse:
    """A use case's refusal in its own words; another tenant's thing is simply not there.

    Raises:
        Http404: so that what is hidden and what never was look the same.
    """
    acts.refused(error)
    if isinstance(error, errors.NotFound):
        raise Http404 from error
    return page(request, error.status, error.title, error.message)
