"""Bodies: from bytes to a model of the wire, or an INVALID_INPUT that names the field.

Everything that could hurt further in is refused here: a body too large or nested too deep, NUL
(PostgreSQL text cannot hold it), lone surrogates (UTF-8 cannot), NaN and Infinity, numbers beyond
64 bits, and a key given twice, of which two readers might see different ones.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from rest_framework.parsers import BaseParser

from bettercompute import acts
from bettercompute.errors import FieldError, InvalidInput, PayloadTooLarge

BODY_BYTES_MAX = 256 * 1024
DEPTH_MAX = 16
ERRORS_MAX = 50
PATH_CHARS_MAX = 300
_INTEGER_DIGITS_MAX = 19
_INTEGER_MAX = 2**63 - 1
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

Model = TypeVar("Model", bound=BaseModel)
Json = Any  # what json.loads answers


class JsonParser(BaseParser):
    """The one parser of the API."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Json:
        """The body as JSON, within all bounds.

        Raises:
            PayloadTooLarge: over 256 KiB.
            InvalidInput: not JSON, or JSON that we refuse.
        """
        raw = stream.read(BODY_BYTES_MAX + 1)
        # Enough to prove, or to rule out, that a body kept elsewhere is the one that was sent.
        acts.mention(bodySha256=hashlib.sha256(raw).hexdigest())
        return load(raw)


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


def parse(model: type[Model], data: Json) -> Model:
    """A model of the wire from JSON.

    Raises:
        InvalidInput: with the path of every field that is wrong (``devices[0].count``).
    """
    if not isinstance(data, dict):
        raise InvalidInput.at("body", "must be a JSON object")
    try:
        # As JSON once more: pydantic's strict mode knows enums and sets by their JSON forms there.
        # By their names on the wire only: tenant_id is as unknown as any other field.
        return model.model_validate_json(json.dumps(data), by_alias=True, by_name=False)
    except ValidationError as error:
        raise invalid(error, data) from error


def invalid(error: ValidationError, given: Json) -> InvalidInput:
    """What pydantic found in what was given, in our words and paths."""
    # Without the input: it may be large, or a secret.
    details = error.errors(include_url=False, include_context=True, include_input=False)
    found = list(dict.fromkeys(_field_error(detail, given) for detail in details))
    return InvalidInput(errors=found[:ERRORS_MAX])


def path_of(location: Sequence[str | int], given: Json, *, missing: bool = False) -> str:
    """``("devices", 0, "Line", "count")`` as ``devices[0].count``.

    pydantic puts the branches of unions into its locations, and a branch may be called as a field
    is. So the location is followed through what was given: a step that is not there is a branch,
    but for the last one of a field that is missing.
    """
    path = ""
    for position, part in enumerate(location):
        if _has(given, part):
            given = given[part]
        elif not (missing and position == len(location) - 1):
            continue
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return _bounded(path) or "body"


def _has(given: Json, part: str | int) -> bool:
    if isinstance(part, int):
        return isinstance(given, list) and part < len(given)
    return isinstance(given, dict) and part in given


def _bounded(path: str) -> str:
    """Keys are as long as who asks wants; an answer is not."""
    return path if len(path) <= PATH_CHARS_MAX else path[:PATH_CHARS_MAX] + "…"


def _field_error(detail: ErrorDetails, given: Json) -> FieldError:
    is_missing = detail["type"] == "missing"
    return FieldError(path_of(detail["loc"], given, missing=is_missing), _message(detail))


def _message(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "missing":
            return "required"
        case "extra_forbidden":
            return "unknown field"
        case "value_error" | "assertion_error":
            return str(detail.get("ctx", {}).get("error", detail["msg"]))
    message = detail["msg"]
    return message[:1].lower() + message[1:]


def _check(document: Json) -> None:
    """Walk without recursion: depth, and text that cannot be stored."""
    for path, depth, value in _walk(document):
        if depth > DEPTH_MAX:
            raise InvalidInput.at(_bounded(path), f"nested deeper than {DEPTH_MAX}")
        if isinstance(value, str) and _UNSTORABLE.search(value):
            raise InvalidInput.at(_bounded(path), "must not have NUL or a lone surrogate")


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
        raise InvalidInput.at(_bounded(twice.translate(_VISIBLE)) or "body", "given twice")
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
