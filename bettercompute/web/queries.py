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
    for name, several in given.lists():
        kinds = _kinds(model, name)
        fault = _fault(kinds, several)
        if fault is not None:
            problems.append(FieldError(name, fault))
        else:
            values[name] = several if list in kinds else several[0]
    if problems:
        raise InvalidInput(errors=problems)
    try:
        return model.model_validate(values, strict=False, by_alias=True, by_name=False)
    except ValidationError as error:
        raise parsing.invalid(error, values) from error


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


def _fault(kinds: set[object], several: list[str]) -> str | None:
    """What is wrong with the texts before they are what the model says."""
    if any(_UNSTORABLE.search(text) for text in several):
        return "must be UTF-8 without NUL"
    if len(several) > 1 and list not in kinds:
        return "given more than once"
    for kind, allowed in _FORMS.items():
        if kind in kinds and not all(allowed.fullmatch(text) for text in several):
            return f"should be a valid {_NAMES[kind]}"
    return None


#: pydantic would also take " 7", "7.0", "1_000", "yes" and "on".
_FORMS: dict[object, re.Pattern[str]] = {
    int: re.compile(r"-?[0-9]{1,19}"),
    bool: re.compile(r"true|false"),
}
_NAMES: dict[object, str] = {int: "integer", bool: "boolean: true or false"}


def _kinds(model: type[BaseModel], parameter: str) -> set[object]:
    """The types a parameter's annotation is made of: ``{list, int}`` of ``list[int] | None``."""
    field = model.model_fields[parameters(model)[parameter]]
    found: set[object] = set()
    todo: list[object] = [field.annotation]
    while todo:
        annotation = todo.pop()
        origin = typing.get_origin(annotation)
        found.add(annotation if origin is None else origin)
        if origin is not None and origin is not typing.Literal:
            todo += typing.get_args(annotation)
    # A field that may also be text takes any text.
    return found - {int, bool} if str in found else found


def _shown(name: str) -> str:
    return name[:100].replace("\x00", "\\u0000") or "(empty)"
