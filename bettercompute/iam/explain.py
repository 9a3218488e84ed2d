"""Why a policy denied: which bound failed, in words and for programs. Pure.

Cedar names the policy that forbade, not the part of it that did. A policy's conditions are read
from its JSON again: of ``forbid … unless { a && b }`` the conjuncts that are false, of
``forbid … when { a || b }`` the disjuncts that are true. Only the forms a limit takes are read
(comparisons, ``contains``, ``!``, ``&&``, ``||``); of anything else no bound is named, and the
policy's own message has to do.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bettercompute.iam.cedar import Json

_FLIPPED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_MEMBERSHIP = {"contains": "in", "containsAny": "contains any of", "containsAll": "contains all of"}
_COMPARE = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
}


class _Unknown(Exception):
    """An expression this module does not read."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What must hold (``gpus <= 8``) and what was asked (``9``)."""

    attribute: str
    operator: str
    limit: Any
    asked: Any

    def as_json(self) -> dict[str, Any]:
        """For ``details``."""
        return asdict(self)

    def __str__(self) -> str:
        asked = ", ".join(map(str, self.asked)) if isinstance(self.asked, tuple) else self.asked
        if self.operator.startswith(("contains", "not contains")):
            verb = "must not" if self.operator.startswith("not") else "must"
            what = _words(self.operator.removeprefix("not "), self.limit)
            return f"{self.attribute} ({asked}) {verb} {what.replace('contains', 'contain')}"
        return f"{self.attribute} must be {_words(self.operator, self.limit)}, not {asked}"


def broken_bounds(policy: Json, variables: Mapping[str, Any]) -> list[Bound]:
    """The bounds of a forbid that the request breaks; ``variables`` are context, principal, …"""
    found: list[Bound] = []
    for condition in policy["conditions"]:
        # A forbid applies when its `when` holds and its `unless` does not.
        holds = condition["kind"] == "when"
        found += _blame(condition["body"], holds, variables)
    return list(dict.fromkeys(_hashable(bound) for bound in found))


def _blame(expression: Json, value: bool, variables: Mapping[str, Any]) -> list[Bound]:
    """The leaves that make the expression have this value; none where it has the other."""
    try:
        if _evaluate(expression, variables) is not value:
            return []
    except _Unknown:
        if not _is_joined(expression):
            return []
    operator, operands = _split(expression)
    if operator == "!":
        return _blame(operands["arg"], not value, variables)
    if operator in {"&&", "||"}:
        left = _blame(operands["left"], value, variables)
        return left + _blame(operands["right"], value, variables)
    return _bound_of(expression, value, variables)


def _bound_of(expression: Json, value: bool, variables: Mapping[str, Any]) -> list[Bound]:
    """A leaf that is true must become false, and the other way round: that is the bound."""
    operator, operands = _split(expression)
    if operator == ".":
        name = _attribute(expression)
        return [] if name is None else [Bound(name, "==", not value, value)]
    if operator not in _COMPARE and operator not in _MEMBERSHIP:
        return []
    left, right = operands["left"], operands["right"]
    name, literal, mirrored = _attribute(left), right, False
    if name is None:
        name, literal, mirrored = _attribute(right), left, True
    if name is None or _attribute(literal) is not None:
        return []
    asked = _evaluate(right if mirrored else left, variables)
    limit = _evaluate(literal, variables)
    return [Bound(name, _needed(operator, mirrored, must_hold=not value), limit, asked)]


def _needed(operator: str, mirrored: bool, *, must_hold: bool) -> str:
    if operator in _MEMBERSHIP:
        # `[…].contains(attribute)` asks whether it is one of them, `attribute.contains(x)` whether
        # it has that one.
        word = _MEMBERSHIP[operator] if mirrored or operator != "contains" else "contains"
        return word if must_hold else f"not {word}"
    if mirrored and operator not in {"==", "!="}:
        operator = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator]
    return operator if must_hold else _FLIPPED[operator]


def _evaluate(expression: Json, variables: Mapping[str, Any]) -> Any:
    operator, operands = _split(expression)
    reader = _READERS.get(operator)
    if reader is not None:
        return reader(operands, variables)
    if not isinstance(operands, dict) or not {"left", "right"} <= operands.keys():
        raise _Unknown
    left = _evaluate(operands["left"], variables)
    return _apply(operator, left, _evaluate(operands["right"], variables))


def _value(literal: Json, _: Mapping[str, Any]) -> Any:
    if isinstance(literal, dict):  # an entity or an extension value
        raise _Unknown
    return literal


def _set(items: Json, variables: Mapping[str, Any]) -> Any:
    return [_evaluate(item, variables) for item in items]


def _read(operands: Json, variables: Mapping[str, Any]) -> Any:
    variable = operands["left"].get("Var")
    try:
        value = variables[variable][operands["attr"]]
    except (KeyError, TypeError) as error:
        raise _Unknown from error
    return list(value) if isinstance(value, tuple) else value


def _not(operands: Json, variables: Mapping[str, Any]) -> Any:
    return not _evaluate(operands["arg"], variables)


def _both(operands: Json, variables: Mapping[str, Any]) -> Any:
    return _evaluate(operands["left"], variables) and _evaluate(operands["right"], variables)


def _either(operands: Json, variables: Mapping[str, Any]) -> Any:
    return _evaluate(operands["left"], variables) or _evaluate(operands["right"], variables)


_READERS: Mapping[str, Callable[[Json, Mapping[str, Any]], Any]] = {
    "Value": _value,
    "Set": _set,
    ".": _read,
    "!": _not,
    "&&": _both,
    "||": _either,
}


def _apply(operator: str, left: Any, right: Any) -> bool:
    if operator in _COMPARE:
        # Cedar compares sets without order, and values of different types are never equal.
        if isinstance(left, list) and isinstance(right, list):
            left, right = sorted(set(left)), sorted(set(right))
        if type(left) is not type(right):
            if operator in {"==", "!="}:
                return operator == "!="
            raise _Unknown
        return bool(_COMPARE[operator](left, right))
    if operator == "contains" and isinstance(left, list):
        return right in left
    if operator == "containsAny" and isinstance(left, list) and isinstance(right, list):
        return bool(set(left) & set(right))
    if operator == "containsAll" and isinstance(left, list) and isinstance(right, list):
        return set(right) <= set(left)
    raise _Unknown


def _attribute(expression: Json) -> str | None:
    """``gpus`` of ``context.gpus``; ``principal.role`` keeps its variable."""
    operator, operands = _split(expression)
    if operator != "." or "Var" not in operands["left"]:
        return None
    variable, name = operands["left"]["Var"], operands["attr"]
    return str(name) if variable == "context" else f"{variable}.{name}"


def _split(expression: Json) -> tuple[str, Any]:
    ((operator, operands),) = expression.items()
    return operator, operands


def _is_joined(expression: Json) -> bool:
    return _split(expression)[0] in {"&&", "||", "!"}


def _hashable(bound: Bound) -> Bound:
    """Lists become tuples, so that a bound named twice is kept once."""
    limit = tuple(bound.limit) if isinstance(bound.limit, list) else bound.limit
    asked = tuple(bound.asked) if isinstance(bound.asked, list) else bound.asked
    return Bound(bound.attribute, bound.operator, limit, asked)


def _words(operator: str, limit: Any) -> str:
    listed = ", ".join(map(str, limit)) if isinstance(limit, tuple) else str(limit)
    return f"{_PHRASES.get(operator, operator)} {listed}".strip()


_PHRASES = {
    "<=": "at most",
    ">=": "at least",
    "<": "less than",
    ">": "more than",
    "==": "",
    "!=": "other than",
    "in": "one of",
    "not in": "none of",
}
