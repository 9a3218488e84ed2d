"""JSON text within the bounds of the API, wherever it is typed or sent (A11).

Everything that could hurt further in is refused here: a text too large or nested too deep, NUL
(PostgreSQL text cannot hold it), lone surrogates (UTF-8 cannot), NaN and Infinity, numbers beyond
64 bits, and a key given twice, of which two readers might see different ones.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from bettercompute.errors import InvalidInput, PayloadTooLarge

BODY_BYTES_MAX = 256 * 1024
DEPTH_MAX = 16
PATH_CHARS_MAX = 300
_INTEGER_DIGITS_MAX = 19
INTEGER_MAX = 2**63 - 1
#: What neither PostgreSQL's text nor UTF-8 can hold.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

Json = Any  # what json.loads answers
#: Where a value stands: the place of what it is in, and its key or index there; None is the whole.
Place = tuple[Any, str | int] | None


def load(raw: bytes) -> Json:
    """JSON from bytes, within all bounds."""
    if len(raw) > BODY_BYTES_MAX:
        raise PayloadTooLarge
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput.at("body", f"not valid UTF-8 at byte {error.start}") from error
    try:
        document = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput.at("body", f"not valid JSON: {error.msg} ({where})") from error
    except RecursionError as error:
        raise InvalidInput.at("body", f"nested deeper than {DEPTH_MAX}") from error
    _check(document)
    return document


def bounded(path: str) -> str:
    """Keys are as long as who asks wants; an answer is not."""
    return path if len(path) <= PATH_CHARS_MAX else path[:PATH_CHARS_MAX] + "…"


def _check(document: Json) -> None:
    """Walk without recursion: depth, and text that cannot be stored."""
    for place, depth, value in _walk(document):
        if depth > DEPTH_MAX:
            raise InvalidInput.at(_path(place), f"nested deeper than {DEPTH_MAX}")
        if isinstance(value, str) and UNSTORABLE.search(value):
            raise InvalidInput.at(_path(place), "must not have NUL or a lone surrogate")


def _walk(document: Json) -> Iterator[tuple[Place, int, Json]]:
    todo: list[tuple[Place, int, Json]] = [(None, 0, document)]
    while todo:
        place, depth, value = todo.pop()
        if isinstance(value, dict):
            yield place, depth + 1, None
            for key, item in value.items():
                inner = (place, key)
                yield inner, 0, key
                todo.append((inner, depth + 1, item))
        elif isinstance(value, list):
            yield place, depth + 1, None
            todo += [((place, index), depth + 1, item) for index, item in enumerate(value)]
        else:
            yield place, depth, value


def _path(place: Place) -> str:
    """``devices[0].count``, made only of what is refused: a long key may be above many values."""
    parts: list[str | int] = []
    while place is not None:
        place, part = place
        parts.append(part)
    path = ""
    for part in reversed(parts):
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return bounded(path.translate(_VISIBLE)) or "body"


#: How an unstorable character is shown where a key that has one is named.
_VISIBLE = {code: f"\\u{code:04x}" for code in (0, *range(0xD800, 0xE000))}


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidInput.at(bounded(twice.translate(_VISIBLE)) or "body", "given twice")
    return found


def _integer(digits: str) -> int:
    if len(digits) <= _INTEGER_DIGITS_MAX + 1:
        number = int(digits)
        if -INTEGER_MAX <= number <= INTEGER_MAX:
            return number
    raise InvalidInput.at("body", f"a number is too large: {digits[:24]}…")


def _float(digits: str) -> float:
    number = float(digits)
    if number in {float("inf"), float("-inf")}:
        raise InvalidInput.at("body", f"a number is too large: {digits[:24]}")
    return number


def _constant(name: str) -> float:
    raise InvalidInput.at("body", f"{name} is not JSON")
