"""The embedded policy engine: Cedar texts in, verdicts out. No rows, no request, no Django.

Texts are parsed once into a ``PolicySet`` whose policies are named after where they come from:
``default/members-release-their-own``, ``team-limits/h100-limit``. A verdict costs well under a
millisecond. A policy that fails while it is evaluated would silently drop out of the verdict, a
forbid too, so such a failure is an error here and never an answer.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import cedarpy

Json = Any  # Cedar's own JSON form of a policy

TEXT_MAX = 32_768
POLICIES_PER_TEXT_MAX = 64


class InvalidPolicy(ValueError):
    """The text is no Cedar, or does not fit the schema. ``line`` is where, counted from 1."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message
        super().__init__(f"line {line}: {message}")


class EvaluationFailed(Exception):
    """The engine could not evaluate every policy, so there is no verdict."""


@dataclass(frozen=True, slots=True)
class CompiledSet:
    """Policies ready to be asked: the engine's handle, and each policy's JSON by its name."""

    handle: Any
    documents: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it is allowed, and the policies that decided; none for a denial by default."""

    allowed: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entity:
    """A Cedar entity: its type, id and attributes."""

    type: str
    id: str
    attributes: Mapping[str, Any]

    @property
    def reference(self) -> dict[str, str]:
        """How a request points at it."""
        return {"type": self.type, "id": self.id}

    def as_json(self) -> dict[str, Any]:
        """The entity in Cedar's JSON."""
        return {"uid": self.reference, "attrs": dict(self.attributes), "parents": []}


@cache
def schema_text() -> str:
    """What policies may speak of."""
    return _read("schema.cedarschema")


@cache
def default_text() -> str:
    """The shipped policies of each role."""
    return _read("default.cedar")


def check(text: str) -> list[Json]:
    """The policies of a text as JSON, in their order.

    Raises:
        InvalidPolicy: it does not parse, speaks of what the schema does not have, or is too long.
    """
    if len(text) > TEXT_MAX:
        raise InvalidPolicy(1, f"at most {TEXT_MAX} characters are allowed")
    statements = _statements(text)
    if not statements:
        raise InvalidPolicy(1, "there is no policy in this text")
    if len(statements) > POLICIES_PER_TEXT_MAX:
        line = statements[POLICIES_PER_TEXT_MAX][0]
        raise InvalidPolicy(line, f"at most {POLICIES_PER_TEXT_MAX} policies are allowed")
    documents = []
    for line, statement in statements:
        documents.append(_check_one(line, statement))
    return documents


def compile_set(texts: Sequence[tuple[str, str]]) -> CompiledSet:
    """One set from several named texts, which have been checked before."""
    named: dict[str, Json] = {}
    for origin, text in texts:
        parsed = json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"]
        # The engine names policies policy0, policy1, …; JSON keeps no order of its own, names do.
        for position in sorted(parsed, key=lambda name: int(name.removeprefix("policy"))):
            document = parsed[position]
            name = document.get("annotations", {}).get("id") or str(len(named) + 1)
            named[_unused(f"{origin}/{name}", named)] = document
    whole = {"staticPolicies": named, "templates": {}, "templateLinks": []}
    return CompiledSet(cedarpy.PolicySet.from_json_str(json.dumps(whole)), named)


def evaluate(
    policies: CompiledSet,
    *,
    principal: Entity,
    action: str,
    resource: Entity,
    context: Mapping[str, Any],
) -> Verdict:
    """The engine's verdict.

    Raises:
        EvaluationFailed: the engine failed, or could not evaluate one of the policies.
    """
    delta = json.dumps([principal.as_json(), resource.as_json()])
    request = {
        "principal": principal.reference,
        "action": {"type": "Action", "id": action},
        "resource": resource.reference,
        "context": dict(context),
    }
    try:
        entities = _actions().with_added_json_str(delta)
        result = cedarpy.is_authorized(request, policies.handle, entities)
    except ValueError as error:
        raise EvaluationFailed(str(error)) from error
    if result.decision is cedarpy.Decision.NoDecision or result.diagnostics.errors:
        raise EvaluationFailed("; ".join(map(str, result.diagnostics.errors)) or "no decision")
    return Verdict(result.allowed, tuple(sorted(result.diagnostics.reasons)))


def actions() -> frozenset[str]:
    """Every action there is, without the groups."""
    return frozenset(action for action in _action_names() if not action.endswith("*"))


@cache
def _schema() -> Any:
    return cedarpy.Schema.from_str(schema_text())


@cache
def _action_names() -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall(r'"(compute:[a-z]+:[a-z*]+)"', schema_text())))


@cache
def _actions() -> Any:
    """The actions with their groups, parsed once; the engine follows `in` through them."""
    documents = []
    for name in _action_names():
        group = name.rpartition(":")[0] + ":*"
        parents = [] if name == group else [{"type": "Action", "id": group}]
        documents.append({"uid": {"type": "Action", "id": name}, "attrs": {}, "parents": parents})
    return cedarpy.Entities.from_json_str(json.dumps(documents))


def _check_one(line: int, statement: str) -> Json:
    try:
        parsed = json.loads(cedarpy.policies_to_json_str(statement))
    except ValueError as error:
        raise InvalidPolicy(line, f"this is not a Cedar policy: {error}") from error
    if parsed["templates"]:
        raise InvalidPolicy(line, "templates (?principal, ?resource) are not supported")
    result = cedarpy.validate_policies(statement, _schema())
    if not result.validation_passed:
        found = "; ".join(
            error.error.removeprefix("for policy `policy0`, ") for error in result.errors[:3]
        )
        raise InvalidPolicy(line, found)
    (document,) = parsed["staticPolicies"].values()
    return document


def _statements(text: str) -> list[tuple[int, str]]:
    """Each policy of a text with the line it starts on; the engine gives no lines of its own."""
    found: list[tuple[int, str]] = []
    start, position = 0, 0
    while position < len(text):
        character = text[position]
        if text.startswith("//", position):
            position = _end_of_comment(text, position)
            if _only_comments(text[start:position]):
                start = position
            continue
        if character == '"':
            position = _end_of_string(text, position)
            continue
        position += 1
        if character == ";":
            found.append(_located(text, start, position))
            start = position
    if text[start:].strip():
        found.append(_located(text, start, len(text)))
    return found


def _located(text: str, start: int, end: int) -> tuple[int, str]:
    statement = text[start:end]
    blank = len(statement) - len(statement.lstrip())
    return text.count("\n", 0, start + blank) + 1, statement.strip()


def _only_comments(text: str) -> bool:
    return all(not line.strip() or line.strip().startswith("//") for line in text.splitlines())


def _end_of_comment(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _end_of_string(text: str, position: int) -> int:
    position += 1
    while position < len(text) and text[position] != '"':
        position += 2 if text[position] == "\\" else 1
    return position + 1


def _unused(name: str, taken: Mapping[str, Json]) -> str:
    candidate, number = name, 2
    while candidate in taken:
        candidate = f"{name}-{number}"
        number += 1
    return candidate


def _read(name: str) -> str:
    return (resources.files(__package__) / "policies" / name).read_text(encoding="utf-8")
