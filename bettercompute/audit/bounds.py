"""What an entry may say: short texts and small documents, and never a secret. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from bettercompute import redaction

NAME_MAX = 200
TEXT_MAX = 500
ITEMS_MAX = 20
DEPTH_MAX = 4
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

Json = Any


def text(value: object, most: int = NAME_MAX) -> str:
    """One text, storable and not long."""
    clean = redaction.scrub(_UNSTORABLE.sub("\ufffd", str(value)))
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def document(detail: Mapping[str, Any]) -> dict[str, Json]:
    """A document that PostgreSQL gives back as it was, so that its seal can be verified."""
    bounded: dict[str, Json] = _bounded(redaction.scrub(dict(detail)), DEPTH_MAX)
    return bounded


def _bounded(value: Any, depth: int) -> Json:
    if value is None or isinstance(value, bool | int):
        return value
    if depth and isinstance(value, Mapping):
        items = list(value.items())[:ITEMS_MAX]
        return {text(name): _bounded(item, depth - 1) for name, item in items}
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_bounded(item, depth - 1) for item in list(value)[:ITEMS_MAX]]
    return text(value, TEXT_MAX)  # fractions, too: a number's spelling is not kept
