"""Query strings: as strict as bodies, with every parameter declared (A5)."""

import re
import typing
from collections.abc import Mapping

from django.http import QueryDict
from pydantic import BaseModel, ValidationError

from bettercompute.errors import FieldError, InvalidInput
from bettercompute.web import parsing

_UNSTORABLE = re.compile("[\x00\ud800-\udfff\ufffd]")


def read(given: QueryDict, model: type[parsing.Model]) -> parsing.Model:
    """A model from a query string. A list field may be given several times, others once.

    Raises:
        InvalidInput: an unknown, repeated or malformed parameter.
    """
    refuse_unknown(given, model)
    values: dict[str, str | list[str]] = {}
    problems: list[FieldError] = []
    lists = _list_parameters(model)
    for name, several in given.lists():
        if any(_UNSTORABLE.search(text) for text in [name, *several]):
            problems.append(FieldError(_shown(name), "must be UTF-8 without NUL"))
        elif name in lists:
            values[name] = several
        elif len(several) > 1:
            problems.append(FieldError(name, "given more than once"))
        else:
            values[name] = several[0]
    if problems:
        raise InvalidInput(errors=problems)
    try:
        return model.model_validate_strings(values)
    except ValidationError as error:
        raise parsing.invalid(error) from error


def refuse_unknown(given: Mapping[str, object], model: type[BaseModel] | None) -> None:
    """Refuse parameters that the route does not have; with no model it has none."""
    known = set() if model is None else set(parameters(model))
    unknown = [name for name in given if name not in known]
    if unknown:
        allowed = ", ".join(sorted(known)) or "none"
        raise InvalidInput(
            errors=[
                FieldError(_shown(name), f"unknown query parameter; allowed: {allowed}")
                for name in unknown[: parsing.ERRORS_MAX]
            ]
        )


def parameters(model: type[BaseModel]) -> dict[str, str]:
    """The parameters' names on the wire, each with its field's name."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


def _list_parameters(model: type[BaseModel]) -> set[str]:
    found = set()
    for parameter, name in parameters(model).items():
        annotation = model.model_fields[name].annotation
        kinds = [annotation, *typing.get_args(annotation)]
        if any(typing.get_origin(kind) in {list, tuple, set} for kind in kinds):
            found.add(parameter)
    return found


def _shown(name: str) -> str:
    return name[:100].replace("\x00", "\\u0000") or "(empty)"
