"""One way to answer with a page: the frame, the page's own data, and the part HTMX asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django.contrib import messages
from django.shortcuts import render as render_template

from bettercompute.pages import navigation, parts, zones
from bettercompute.pages.navigation import Navigation
from bettercompute.pages.parts import Notice, Option

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from bettercompute.pages.visitors import Visitor

STYLESHEETS = tuple(
    f"css/{name}.css" for name in ("tokens", "base", "layout", "components", "timeline")
)
MODULES = tuple(
    f"js/{name}.js" for name in ("countdown", "copy", "zone", "theme", "menu", "fill", "once")
)
THEMES = ("light", "dark")
_TONES = {"success": "green", "warning": "amber", "error": "red"}  # of messages, by their level


@dataclass(frozen=True, slots=True)
class Shell:
    """What the frame around every page shows."""

    theme: str
    path: str
    navigation: Navigation
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
    once: str = "",
    status: int = 200,
) -> HttpResponse:
    """The whole page, or only its ``part`` when HTMX asks for that.

    ``once`` is the key of a form that makes something (``pages.once.key``).
    """
    fragment = bool(part) and request.headers.get("HX-Request") == "true"
    context = {"page": page, "shell": shell(request, section), "once": once}
    response = render_template(request, part if fragment else template, context, status=status)
    response["Vary"] = "HX-Request, Cookie"
    response["Cache-Control"] = "no-store, private"
    return response


def shell(request: HttpRequest, section: str) -> Shell:
    """The frame for whoever looks; for nobody in particular on the way in and on error pages."""
    visitor: Visitor | None = getattr(request, "visitor", None)
    theme = request.COOKIES.get("theme", "")
    notices = tuple(
        Notice("", str(message), _TONES.get(message.level_tag, "blue"))
        for message in messages.get_messages(request)
    )
    frame = Shell(
        theme=theme if theme in THEMES else "",
        path=request.path,
        navigation=navigation.of(section),
        notices=notices,
    )
    if visitor is None:
        return frame
    caller = visitor.caller
    return replace(
        frame,
        navigation=navigation.of(section, role=caller.role, is_operator=caller.is_operator),
        username=caller.username,
        initials=caller.username[:2],
        tenant_name=visitor.tenant_name,
        role=caller.role,
        is_operator=caller.is_operator,
        tenants=parts.options(
            ((seat.tenant_id, seat.name) for seat in visitor.seats), caller.tenant_id
        ),
        zone=str(visitor.zone),
        zone_offset=zones.offset_text(visitor.now, visitor.zone),
    )
