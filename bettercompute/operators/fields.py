"""How the columns of a register are shown: instants in UTC, documents readable, ids as links."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from django.contrib.admin.utils import quote
from django.contrib.postgres.fields import ArrayField, DateTimeRangeField
from django.db import models
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

NOTHING = "–"
STATES = frozenset({"state", "reported"})

Shown = Callable[[Any], object]


def column(field: models.Field[Any, Any], links: Mapping[str, str]) -> Shown:
    """What a register shows of a column; ``links`` says whose ids a text column holds."""
    return _column(field, links.get(field.name))


@cache  # Django compares what it shows by identity, and asks for it several times
def _column(field: models.Field[Any, Any], register: str | None) -> Shown:
    def shown(row: models.Model) -> object:
        return _value(row, field, register)

    shown.__name__ = field.name  # Django finds the help text and the heading's class by it
    described: Any = shown
    described.short_description = "ID" if field.name == "id" else field.verbose_name
    described.admin_order_field = field.name
    return shown


def columns(
    model: type[models.Model], links: Mapping[str, str], *, without: Iterable[str] = ()
) -> list[Shown]:
    """All columns of a table, but for those that nobody may see."""
    hidden = set(without)
    return [
        column(field, links) for field in model._meta.concrete_fields if field.name not in hidden
    ]


def link(register: str, key: str | None, text: str = "") -> SafeString | str:
    """A link to the page of a row, by the register's label: ``nodes.node``."""
    if not key:
        return NOTHING
    try:
        href = address(register, key)
    except NoReverseMatch:
        return text or key
    return format_html('<a href="{}">{}</a>', href, text or key)


def address(register: str, key: str) -> str:
    """The address of a row's page."""
    name = register.lower().replace(".", "_")
    return reverse(f"admin:{name}_change", args=[quote(key)])


def instant(when: datetime | None) -> SafeString | str:
    """An instant in UTC, to the second; the whole of it for programs."""
    if when is None:
        return NOTHING
    text = f"{when:%Y-%m-%d %H:%M:%S}"
    return format_html('<time datetime="{}">{}</time>', when.isoformat(), text)


def chip(state: str) -> SafeString | str:
    """A state as a word and a tone."""
    if not state:
        return NOTHING
    return format_html('<span class="chip state-{}">{}</span>', state, state)


def flag(value: bool) -> SafeString:
    """Yes or no as words: whether either is good depends on the column."""
    word = "yes" if value else "no"
    return format_html('<span class="flag-{}">{}</span>', word, word)


def document(value: object) -> SafeString | str:
    """A JSON document over as many lines as it needs."""
    if value in ({}, [], None):
        return NOTHING
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return format_html('<pre class="document">{}</pre>', text)


def table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> SafeString | str:
    """A small table inside a page."""
    lines = [format_html_join("", "<td>{}</td>", ((cell,) for cell in row)) for row in rows]
    if not lines:
        return NOTHING
    return format_html(
        '<div class="scroll"><table class="inner">'
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        format_html_join("", '<th scope="col">{}</th>', ((heading,) for heading in headings)),
        format_html_join("", "<tr>{}</tr>", ((line,) for line in lines)),
    )


def _value(row: models.Model, field: models.Field[Any, Any], register: str | None) -> object:
    if isinstance(field, models.ForeignKey):
        return _related(row, field)
    value = getattr(row, field.name)
    if register is not None:
        return _linked(register, value)
    if field.name in STATES:
        return chip(value)
    return _plain(field, value)


def _plain(field: models.Field[Any, Any], value: Any) -> object:
    if isinstance(field, models.BooleanField):
        return flag(value)
    if value is None or value == "":
        return NOTHING
    for kind, show in _SHOWN:
        if isinstance(field, kind):
            return show(value)
    return value


def _window(during: Any) -> SafeString:
    return format_html("{} to {}", instant(during.lower), instant(during.upper))


_SHOWN: tuple[tuple[type[models.Field[Any, Any]], Callable[[Any], object]], ...] = (
    (models.DateTimeField, instant),
    (DateTimeRangeField, _window),
    (models.JSONField, document),
    (ArrayField, lambda value: _linked("", value)),
    (models.BinaryField, lambda value: bytes(value).hex()),
)


def _related(row: models.Model, field: models.ForeignKey[Any, Any]) -> object:
    key = getattr(row, field.attname)
    if key is None:
        return NOTHING
    # Its name where that has been read with the row; never a query for each row.
    name = str(getattr(row, field.name)) if field.is_cached(row) else key
    return link(field.related_model._meta.label_lower, key, name)


def _linked(register: str, value: Any) -> object:
    """An id, or a list of them."""
    if not isinstance(value, list):
        return link(register, value)
    cells = [(link(register, each) if register else each,) for each in value]
    return format_html_join(", ", "{}", cells) if cells else NOTHING
