"""What awaits somebody's confirmation, said in the frame of every page."""

from collections.abc import Callable
from functools import partial

from django.http import HttpRequest

from bettercompute.pages.visitors import Visitor
from reservations.confirming import lookups


def header(request: HttpRequest) -> dict[str, Callable[[], int]]:
    """How many confirmations await who looks; counted only where a template says it."""
    visitor: Visitor | None = getattr(request, "visitor", None)
    return (
        {} if visitor is None else {"open_confirmations": partial(lookups.open_of, visitor.caller)}
    )
