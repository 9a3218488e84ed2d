"""Fields that take one of several kinds of JSON value, judged against the kind that was given.

A plain union tries every branch and reports a mistake once for each. ``by_kind`` looks at the value
first, so that a mistake is said once; a kind that no branch has is said in the field's own words.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, Discriminator, StringConstraints, Tag

from bettercompute.wire.base import EpochMs

NUMBER, TEXT, LIST, OBJECT = (Tag(name) for name in ("Number", "Text", "List", "Object"))

_KINDS: tuple[tuple[type | tuple[type, ...], Tag], ...] = (
    (int, NUMBER),
    (str, TEXT),
    (list, LIST),
    ((Mapping, BaseModel), OBJECT),
)


def by_kind(wanted: str) -> Discriminator:
    """Choose the branch by the kind of the value; ``wanted`` is what to say of any other kind."""
    return Discriminator(_kind, custom_error_type="kind", custom_error_message=wanted)


def _kind(value: object) -> str | None:
    if isinstance(value, bool):
        return None
    return next((tag.tag for kinds, tag in _KINDS if isinstance(value, kinds)), None)


ShortText = Annotated[str, StringConstraints(min_length=1, max_length=64)]
DurationText = Annotated[
    Annotated[int, NUMBER] | Annotated[ShortText, TEXT],
    by_kind("should be a duration: whole milliseconds, or text such as 8h"),
]
InstantText = Annotated[
    Annotated[EpochMs, NUMBER] | Annotated[ShortText, TEXT],
    by_kind("should be an instant: whole epoch milliseconds, or text such as 2026-03-02T09:00:00Z"),
]
