"""Cursors of lists: opaque, of one list only, and refused when they are not (A5)."""

import base64
import binascii
import bisect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db.models import Model, QuerySet

from bettercompute import jsontext
from bettercompute.errors import InvalidInput
from bettercompute.wire.base import CURSOR_MAX, PageQuery

Item = TypeVar("Item")
Row = TypeVar("Row", bound=Model)
Position = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some items of a list in their order, and the cursor behind them where more follow."""

    items: list[Item]
    next_cursor: str | None


def page(
    list_name: str,
    items: Iterable[Item],
    wanted: PageQuery,
    *,
    by: Callable[[Item], Position],
    kinds: tuple[type[str] | type[int], ...],
) -> Page[Item]:
    """A page of a list that is read whole anyhow; ``by`` orders it and is distinct, of ``kinds``.

    The position is one of the order, not of an item: what is gone meanwhile does not matter.

    Raises:
        InvalidInput: the cursor is none of this list.
    """
    ordered = sorted(items, key=by)
    start = 0
    if wanted.cursor is not None:
        behind = decode(list_name, wanted.cursor, *kinds)
        start = bisect.bisect_right(ordered, behind, key=by)
    found = ordered[start : start + wanted.limit]
    more = start + wanted.limit < len(ordered)
    return Page(found, encode(list_name, *by(found[-1])) if more else None)


def newest(list_name: str, rows: "QuerySet[Row]", *, limit: int, cursor: str | None) -> Page[Row]:
    """A page of rows, the newest first: their ids sort by the moment they were made.

    Raises:
        InvalidInput: the cursor is none of this list.
    """
    if cursor is not None:
        (last,) = decode(list_name, cursor, str)
        rows = rows.filter(pk__lt=last)
    read = list(rows.order_by("-pk")[: limit + 1])
    found = read[:limit]
    return Page(found, encode(list_name, str(found[-1].pk)) if len(read) > limit else None)


def check(list_name: str, wanted: PageQuery, *kinds: type[str] | type[int]) -> None:
    """Refuse a cursor that is none of this list, before anything is looked for.

    Raises:
        InvalidInput: it is none.
    """
    if wanted.cursor is not None:
        decode(list_name, wanted.cursor, *kinds)


def encode(list_name: str, *position: str | int) -> str:
    """The cursor behind a row: the values its list is ordered by."""
    text = json.dumps([list_name, *position], separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(list_name: str, cursor: str, *kinds: type[str] | type[int]) -> tuple[str | int, ...]:
    """The position a cursor stands for.

    Raises:
        InvalidInput: it is none, or of another list.
    """
    refused = InvalidInput.at("cursor", "not a cursor of this list")
    if len(cursor) > CURSOR_MAX:
        raise refused
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        document = json.loads(
            base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
        )
    except (binascii.Error, UnicodeError, ValueError, RecursionError) as error:
        raise refused from error
    if not isinstance(document, list) or document[:1] != [list_name]:
        raise refused
    position = document[1:]
    if [type(value) for value in position] != list(kinds) or not all(map(_is_sane, position)):
        raise refused
    return tuple(position)


def _is_sane(value: str | int) -> bool:
    """Whether a column could have it: cursors are made up, too."""
    if isinstance(value, str):
        return jsontext.UNSTORABLE.search(value) is None
    return abs(value) <= jsontext.INTEGER_MAX
