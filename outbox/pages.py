"""What the console's pages of events show. Pure: from events to what a template prints."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from urllib.parse import urlencode

from django.urls import reverse

from bettercompute import clock, ids
from bettercompute.pages import moments, parts
from bettercompute.pages.moments import Moment
from bettercompute.pages.parts import Fact, Field, Link, Option
from bettercompute.wire.events import Event, EventList
from outbox import catalog, queries, schemas, subjects
from outbox.filters import WILDCARD
from outbox.reader import EventRow

Names = Mapping[str, Link]  # what ids are called, where whoever looks may know it

#: What the first part of a subject names, where that has a page.
_PAGES = {
    "reservation": "reservation",
    "series": "series-detail",
    "confirmation": "confirmation",
    "pool": "pool",
}
_MEMBERS_READ = {"reservation", "series"}
_HIDDEN = {"poolId", "state"}
_MOMENTS = {"start", "end", "occurrence", "expiresAt"}


@dataclass(frozen=True, slots=True)
class Choice:
    """What the address of the list asks for."""

    types: str = ""
    subject: str = ""
    cursor: str = ""
    typed: str = ""  # as whoever looks named the subject

    def query(self, **more: str) -> str:
        """The same, or with more, as an address has it."""
        given = {"types": self.types, "subject": self.subject} | more
        return urlencode({name: value for name, value in given.items() if value})


@dataclass(frozen=True, slots=True)
class Detail:
    """Something that an event says: one value or several, with names for ids."""

    label: str
    values: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One event in the list."""

    href: str
    type: str
    at: Moment
    subject: Link
    details: tuple[Detail, ...]


@dataclass(frozen=True, slots=True)
class Live:
    """How the list keeps itself up to date: the stream to read, from where, and of which types."""

    stream: str
    after: str
    types: str
    rows: str  # where the list is rendered anew


@dataclass(frozen=True, slots=True)
class ListPage:
    """The list."""

    choice: Choice
    options: tuple[Option, ...]
    subject: Field
    lines: tuple[Line, ...] = ()
    older: str = ""  # the address of what came before
    live: Live | None = None  # none on the pages of older ones


@dataclass(frozen=True, slots=True)
class EventPage:
    """One event."""

    type: str
    meaning: str
    catalog_href: str
    facts: tuple[Fact, ...]
    details: tuple[Detail, ...]
    document: str


@dataclass(frozen=True, slots=True)
class TypeEntry:
    """One type of the catalogue."""

    name: str
    meaning: str
    example: str
    schema: str
    list_href: str


def listing(
    found: EventList,
    choice: Choice,
    names: Names,
    *,
    tenant_id: str,
    now: datetime,
    zone: tzinfo,
) -> ListPage:
    """The page of a list."""
    address = reverse("events")
    older = f"{address}?{choice.query(cursor=found.next_cursor)}" if found.next_cursor else ""
    return ListPage(
        choice=choice,
        options=_options(choice.types),
        subject=Field("subject", choice.typed),
        lines=tuple(line(each, names, now=now, zone=zone) for each in found.items),
        older=older,
        live=None if choice.cursor else _live(found, choice, tenant_id),
    )


def refused(choice: Choice, message: str) -> ListPage:
    """The page where no event is about anything that is called so."""
    return ListPage(
        choice=choice,
        options=_options(choice.types),
        subject=Field("subject", choice.typed, message),
    )


def mentioned(shown: Iterable[Event]) -> frozenset[str]:
    """Every id that their lines show."""
    return frozenset(key for event in shown for key in _ids(event) if ids.prefix(key))


def _ids(event: Event) -> Iterator[str]:
    yield event.subject.partition("/")[2]
    for value in _shown(event).values():
        yield from (each for each in _several(value) if isinstance(each, str))


def line(event: Event, names: Names, *, now: datetime, zone: tzinfo) -> Line:
    """An event in a list."""

    def said(name: str, value: object) -> Link:
        text = _text(name, value, now=now, zone=zone)
        return names.get(text) or Link(_own_page(text), text)

    return Line(
        href=reverse("event", args=[event.id]),
        type=event.type,
        at=moments.moment(clock.from_ms(event.time), now=now, zone=zone),
        subject=_subject(event.subject, names),
        details=tuple(
            Detail(name, tuple(said(name, each) for each in _several(value)))
            for name, value in _shown(event).items()
        ),
    )


def _own_page(text: str) -> str:
    """Of what every member may look at, where the text is its id."""
    kind = subjects.KINDS.get(ids.prefix(text), "")
    return reverse(_PAGES[kind], args=[text]) if kind in _MEMBERS_READ else ""


def _subject(subject: str, names: Names) -> Link:
    kind, _, key = subject.partition("/")
    if key in names:
        return Link(names[key].href, f"{kind} {names[key].label}")
    return Link(reverse(_PAGES[kind], args=[key]) if kind in _PAGES else "", subject)


def _shown(event: Event) -> Mapping[str, object]:
    return {name: value for name, value in event.data.items() if name not in _HIDDEN}


def _several(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else (value,)


def one(row: EventRow, names: Names, *, now: datetime, zone: tzinfo) -> EventPage:
    """The page of one event."""
    event = queries.as_wire(row)
    shown = line(event, names, now=now, zone=zone)
    kind = catalog.BY_NAME.get(event.type)
    return EventPage(
        type=event.type,
        meaning="" if kind is None else kind.meaning,
        catalog_href=f"{reverse('event-catalog')}#{event.type}" if kind else "",
        facts=(
            Fact("When", f"{shown.at.text} ({shown.at.title})"),
            Fact("About", event.subject, shown.subject.href),
            Fact("Id", event.id),
            Fact("Position", str(row.position)),
        ),
        details=shown.details,
        document=_json(event.model_dump(by_alias=True)),
    )


def entries() -> tuple[TypeEntry, ...]:
    """The catalogue."""
    address = reverse("events")
    return tuple(
        TypeEntry(
            name=shown.type,
            meaning=shown.meaning,
            example=_json(shown.example.model_dump(by_alias=True)),
            schema=_json(shown.json_schema),
            list_href=f"{address}?{urlencode({'types': shown.type})}",
        )
        for shown in schemas.all_types().items
    )


def _live(found: EventList, choice: Choice, tenant_id: str) -> Live:
    stream = f"{reverse('event-stream')}?{choice.query(tenantId=tenant_id)}"
    asked = choice.types.removesuffix("*")
    names = [name for name in catalog.BY_NAME if name.startswith(asked)]
    rows = f"{reverse('events')}?{choice.query()}"
    return Live(stream=stream, after=found.position, types=" ".join(names), rows=rows)


def _options(chosen: str) -> tuple[Option, ...]:
    choices: list[tuple[str, str]] = [
        ("", "Everything"),
        *((group + WILDCARD, f"All of {group}") for group in catalog.GROUPS),
        *((name, name) for name in catalog.BY_NAME),
    ]
    return parts.filter_options(choices, chosen)


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _text(name: str, value: object, *, now: datetime, zone: tzinfo) -> str:
    if name in _MOMENTS and isinstance(value, int):
        return moments.text(clock.from_ms(value), now=now, zone=zone)
    return value if isinstance(value, str) else json.dumps(value)
