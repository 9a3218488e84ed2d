"""Selectors: conditions on a device or its node, from the wire to the planner's terms (R3)."""

from typing import Any

from bettercompute import errors
from bettercompute.wire import reservations as wire
from pools.planner import terms
from pools.planner.request import Term

_NEEDS_VALUE = {"=", "!=", ">="}


def parse(
    selector: list[wire.SelectorTerm] | dict[str, str | int] | None,
    path: str,
    wrong: list[errors.FieldError],
) -> tuple[Term, ...]:
    """The terms, in one order however they were given; what is wrong goes to ``wrong``."""
    if selector is None:
        return ()
    if isinstance(selector, dict):
        found = [Term(key, "=", (_value(key, value),)) for key, value in selector.items()]
        paths = [f"{path}.{key}" for key in selector]
    else:
        found = [_term(term, f"{path}[{index}]", wrong) for index, term in enumerate(selector)]
        paths = [f"{path}[{index}].value" for index in range(len(selector))]
    for term, where in zip(found, paths, strict=True):
        _check_numbers(term, where, wrong)
    return tuple(sorted(set(found), key=lambda term: (term.key, term.op, str(term.values))))


def document(term: Term) -> dict[str, Any]:
    """A term as stored and answered."""
    base: dict[str, Any] = {"key": term.key, "op": term.op}
    match term.op:
        case "exists":
            return base
        case "in":
            return {**base, "values": list(term.values)}
        case _:
            return {**base, "value": term.values[0]}


def _term(term: wire.SelectorTerm, path: str, wrong: list[errors.FieldError]) -> Term:
    if term.op in _NEEDS_VALUE and (term.value is None or term.values is not None):
        wrong.append(errors.FieldError(f"{path}.value", f"one value is required with op {term.op}"))
    if term.op == "in" and (term.values is None or term.value is not None):
        wrong.append(errors.FieldError(f"{path}.values", "a list is required with op in"))
    if term.op == "exists" and (term.value is not None or term.values is not None):
        wrong.append(errors.FieldError(f"{path}.value", "is not allowed with op exists"))
    given = term.values if term.values is not None else [term.value]
    values = {_value(term.key, value) for value in given if value is not None}
    return Term(term.key, term.op, tuple(sorted(values, key=str)))


def _value(key: str, value: str | int) -> str | int:
    """Sizes are numbers and everything else is text, however it was written."""
    if key != "memoryGiB":
        return str(value)
    return int(value) if isinstance(value, int) or (value.isascii() and value.isdigit()) else value


def _check_numbers(term: Term, path: str, wrong: list[errors.FieldError]) -> None:
    if term.key == "memoryGiB":
        if any(not isinstance(value, int) for value in term.values):
            wrong.append(errors.FieldError(path, "must be a whole number of GiB"))
    elif term.op == ">=" and not all(terms.number(str(value)) for value in term.values):
        wrong.append(errors.FieldError(path, "must be a number or a version such as 550.54"))
