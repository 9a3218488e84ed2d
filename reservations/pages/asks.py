"""What awaits somebody's confirmation, said in the frame of every page."""

from django.http import HttpRequest

from bettercompute.pages.visitors import Visitor
from reservations.confirming import lookups


def header(request: HttpRequest) -> dict[str, int]:
    """How many confirmations await who looks, for the frame; a fragment has none."""
    visitor: Visitor | None = getattr(request, "visitor", None)
    if visitor is None or request.headers.get("HX-Request") == "true":
        return {}
    return {"open_confirmations": lookups.open_of(visitor.caller)}
