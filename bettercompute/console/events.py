"""The console's pages of events: what happened and happens, one event, the catalogue of types.

Here and not in the outbox, which knows ids alone: what these are called, and which of it a visitor
may see, is for those above it to say.
"""

import re
from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from bettercompute import acts, errors, ids
from bettercompute.console import naming
from bettercompute.pages import parts, rendering, visitors
from bettercompute.pages.visitors import Visitor
from outbox import filters, pages, queries, rights, subjects
from outbox.filters import Filters
from outbox.pages import Choice

SECTION = "events"
SHOWN = 50
#: A node or a pool by its name, as the list shows it (``node gpu-01``), or by the name alone.
_NAMED = re.compile(r"(?:(?P<kind>node|pool)[/ ])?(?P<name>[^/]+)")


@require_safe
@visitors.required
def index(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """What happened, newest first; kept up to date by the browser while it is looked at."""
    choice = _choice(request)
    try:
        choice = replace(choice, subject=_meant(visitor, choice.typed))
    except errors.InvalidInput as refusal:
        acts.refused(refusal)
        message = parts.sentence(refusal.details["errors"][0]["message"])
        page = pages.refused(choice, message)
        return rendering.render(request, "events/list.html", page, section=SECTION, status=400)
    found = queries.page(
        Filters(
            tenant_id=rights.require(visitor.caller, platform=False),
            types=filters.types([choice.types] if choice.types else []),
            subject=choice.subject or None,
        ),
        limit=SHOWN,
        cursor=choice.cursor or None,
    )
    page = pages.listing(
        found,
        choice,
        naming.of(visitor.caller, pages.mentioned(found.items)),
        tenant_id=visitor.caller.tenant_id,
        now=visitor.now,
        zone=visitor.zone,
    )
    return rendering.render(
        request, "events/list.html", page, section=SECTION, part="events/_results.html"
    )


@require_safe
@visitors.required
def detail(request: HttpRequest, visitor: Visitor, event_id: str) -> HttpResponse:
    """One event, as it is sent."""
    row = queries.get(event_id, tenant_id=rights.require(visitor.caller, platform=False))
    names = naming.of(visitor.caller, pages.mentioned([queries.as_wire(row)]))
    page = pages.one(row, names, now=visitor.now, zone=visitor.zone)
    return rendering.render(request, "events/detail.html", page, section=SECTION)


@require_safe
@visitors.required
def catalogue(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """Every type of event, with an example and its schema."""
    entries = pages.entries()
    return rendering.render(request, "events/catalog.html", entries, section=SECTION)


def _choice(request: HttpRequest) -> Choice:
    given = {name: request.GET.get(name, "").strip() for name in ("types", "subject", "cursor")}
    return Choice(**given, typed=given["subject"])


def _meant(visitor: Visitor, typed: str) -> str:
    """The subject that is meant: as the API names it, or by its name as the page shows it.

    Raises:
        errors.InvalidInput: nothing is called so, or several things are.
    """
    found = _NAMED.fullmatch(typed)
    if found is None or ids.prefix(found["name"]):
        return subjects.meant(typed)
    kind, name = found["kind"], found["name"]
    fitting = [
        subject
        for subject in naming.called(visitor.caller, name)
        if kind is None or subject.startswith(f"{kind}/")
    ]
    match fitting:
        case []:
            return subjects.meant(typed)
        case [subject]:
            return subject
        case _:
            several = f"is the name of {len(fitting)} things; give one: {', '.join(fitting)}"
            raise errors.InvalidInput.at("subject", several)
