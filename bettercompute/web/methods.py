"""Views outside Django REST framework that only answer reads, under the paths of programs.

Another method is 405 as a problem, whoever sends it. Django would look for a CSRF token first and
answer 403, which says nothing of what is wrong; a view that changes nothing needs none.
"""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from bettercompute.errors import ApiError, MethodNotAllowed
from bettercompute.web import problems

Parameters = ParamSpec("Parameters")
View = Callable[Concatenate[HttpRequest, Parameters], HttpResponse]

SAFE = ("GET", "HEAD")


def reading(view: View[Parameters]) -> View[Parameters]:
    """GET and HEAD go to the view; what it refuses is a problem."""

    @wraps(view)
    def answer(
        request: HttpRequest, /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> HttpResponse:
        try:
            if request.method in SAFE:
                return view(request, *args, **kwargs)
            raise MethodNotAllowed(f"{request.method} is not allowed here.", allow=list(SAFE))
        except ApiError as refused:
            return problems.answer(refused, request)

    return csrf_exempt(answer)
