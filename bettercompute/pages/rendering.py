"""One way to answer with a page: the frame, the page's own data, and the part HTMX asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django.contrib import messages
from django.shortcuts import render as render_template
from django.urls import reverse

from bettercompute.pages import parts, zones
from bettercompute.pages.parts import Link, Notice, Option

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from bettercompute.pages.visitors import Visitor

STYLESHEETS = tuple(
    f"css/{name}.css" for name in ("tokens", "base", "layout", "components", "timeline")
)
MODULES = tuple(f"js/{name}.js" for name in ("countdown", "copy", "zone", "theme", "menu", "fill"))
THEMES = ("light", "dark")

# Section, label, name of the URL, and the strokes of its icon on an 18 x 18 grid.
_SECTIONS = (
    ("home", "Home", "home", "M3 8.2 9 3l6 5.2V15H3zM7.2 15v-4h3.6v4"),
    ("pools", "Pools", "pools", "M3 4h12v4H3zM3 10h12v4H3zM6 6h.1M6 12h.1"),
    ("reserve", "Reserve", "reserve", "M9 4v10M4 9h10"),
    ("reservations", "Reservations", "reservations", "M3 5h8M3 9h12M3 13h6"),
)


@dataclass(frozen=True, slots=True)
class Shell:
    """What the frame around every page shows."""

    theme: str
    path: str
    links: tuple[Link, ...]
    notices: tuple[Notice, ...]
    username: str = ""
    initials: str = ""
    tenant_name: str = ""
    role: str = ""
    is_operator: bool = False
    tenants: tuple[Option, ...] = ()
    zone: str = "UTC"
    zone_offset: str = ""
    stylesheets: tuple[str, ...] = STYLESHEETS
    modules: tuple[str, ...] = MODULES


def render(
    request: HttpRequest,
    template: str,
    page: object,
    *,
    section: str = "",
    part: str = "",
    status: int = 200,
) -> HttpResponse:
    """The whole page, or only its ``part`` when HTMX asks for that."""
    fragment = bool(part) and request.headers.get("HX-Request") == "true"
    context = {"page": page, "shell": shell(request, section)}
    response = render_template(request, part if fragment else template, context, status=status)
    response["Vary"] = "HX-Request, Cookie"
    response["Cache-Control"] = "no-store, private"
    return response


def shell(request: HttpRequest, section: str) -> Shell:
    """The frame for whoever looks; for nobody in particular on the way in and on error pages."""
    visitor: Visitor | None = getattr(request, "visitor", None)
    theme = request.COOKIES.get("theme", "")
    notices = tuple(
        Notice("", str(message), message.level_tag or "blue")
        for message in messages.get_messages(request)
    )
    frame = Shell(
        theme=theme if theme in THEMES else "",
        path=request.path,
        links=_links(section),
        notices=notices,
    )
    if visitor is None:
        return frame
    return replace(
        frame,
        username=visitor.caller.username,
        initials=visitor.caller.username[:2],
        tenant_name=visitor.tenant_name,
        role=visitor.caller.role,
        is_operator=visitor.caller.is_operator,
        tenants=parts.options(
            ((seat.tenant_id, seat.name) for seat in visitor.seats), visitor.caller.tenant_id
        ),
        zone=str(visitor.zone),
        zone_offset=zones.offset_text(visitor.now, visitor.zone),
    )


def _links(section: str) -> tuple[Link, ...]:
    return tuple(
        Link(reverse(url), label, key == section, icon, thumb_only=key == "reserve")
        for key, label, url, icon in _SECTIONS
    )
