"""Bodies: from JSON to a model of the wire, or an INVALID_INPUT that names the field."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import IO, Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from rest_framework.parsers import BaseParser

from bettercompute import acts, jsontext
from bettercompute.errors import FieldError, InvalidInput

BODY_BYTES_MAX = jsontext.BODY_BYTES_MAX
ERRORS_MAX = 50

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
        return jsontext.load(raw)


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
    return jsontext.bounded(path) or "body"


def _has(given: Json, part: str | int) -> bool:
    if isinstance(part, int):
        return isinstance(given, list) and part < len(given)
    return isinstance(given, dict) and part in given


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
