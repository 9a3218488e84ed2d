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
_INTEGER_MAX = 2**63 - 1
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

Json = Any  # what json.loads answers


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
    for path, depth, value in _walk(document):
        if depth > DEPTH_MAX:
            raise InvalidInput.at(bounded(path), f"nested deeper than {DEPTH_MAX}")
        if isinstance(value, str) and _UNSTORABLE.search(value):
            raise InvalidInput.at(bounded(path), "must not have NUL or a lone surrogate")


def _walk(document: Json) -> Iterator[tuple[str, int, Json]]:
    todo: list[tuple[str, int, Json]] = [("", 0, document)]
    while todo:
        path, depth, value = todo.pop()
        if isinstance(value, dict):
            yield path or "body", depth + 1, None
            for key, item in value.items():
                inner = f"{path}.{key}" if path else key
                yield (inner.translate(_VISIBLE) or "body"), 0, key
                todo.append((inner, depth + 1, item))
        elif isinstance(value, list):
            yield path or "body", depth + 1, None
            todo += [(f"{path}[{i}]", depth + 1, item) for i, item in enumerate(value)]
        else:
            yield path or "body", depth, value


#: How an unstorable character is shown where a key that has one is named.
_VISIBLE = {0: "\\u0000"}


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
        if -_INTEGER_MAX <= number <= _INTEGER_MAX:
            return number
    raise InvalidInput.at("body", f"a number is too large: {digits[:24]}…")


def _float(digits: str) -> float:
    number = float(digits)
    if number in {float("inf"), float("-inf")}:
        raise InvalidInput.at("body", f"a number is too large: {digits[:24]}")
    return number


def _constant(name: str) -> float:
    raise InvalidInput.at("body", f"{name} is not JSON")
