"""The embedded policy engine: Cedar texts in, verdicts out. No rows, no request, no Django.

Texts are parsed once into a ``PolicySet`` whose policies are named after where they come from:
``default/members-release-their-own``, ``team-limits/h100-limit``. A verdict costs well under a
millisecond. A policy that fails while it is evaluated would silently drop out of the verdict, a
forbid too, so such a failure is an error here and never an answer.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import cedarpy

Json = Any  # Cedar's own JSON form of a policy

TEXT_MAX = 32_768
POLICIES_PER_TEXT_MAX = 64
# The engine has no bounds of its own: it goes into brackets, and along a + b + c …, on the stack of
# its thread, and an overflow takes the whole process with it. So both are bounded before it looks.
NESTING_MAX = 32
CODE_MAX = 4_096  # of one policy, outside its strings and comments
CONDITIONS_MAX = 64
_RESOURCE_TYPES = {
    "reservations": "Reservation",
    "pools": "Pool",
    "nodes": "Node",
    "webhooks": "Webhook",
    "events": "EventLog",
    "audit": "Audit",
}


class InvalidPolicy(ValueError):
    """The text is no Cedar, or does not fit the schema. ``line`` is where, counted from 1."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message
        super().__init__(f"line {line}: {message}")


class EvaluationFailed(Exception):
    """The engine could not evaluate every policy, so there is no verdict.

    ``policies`` names those it failed on; none where the engine itself failed.
    """

    def __init__(self, message: str, policies: Sequence[str] = ()) -> None:
        self.policies = tuple(policies)
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class CompiledSet:
    """Policies ready to be asked: the engine's handle, and each policy's JSON by its name."""

    handle: Any
    documents: Mapping[str, Json]
    attributes: frozenset[str]  #: every name of an attribute that any of them speaks of


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


@dataclass(frozen=True, slots=True)
class Example:
    """A policy to start from; ``about`` is the comment at its head."""

    name: str
    about: str
    text: str


@cache
def examples() -> tuple[Example, ...]:
    """The shipped examples by name. None of them binds anybody until it is saved."""
    found = []
    for name, text in sorted(_example_texts().items()):
        comment = itertools.takewhile(lambda line: line.startswith("//"), text.splitlines())
        about = " ".join(line.removeprefix("//").strip() for line in comment)
        found.append(Example(name, about, text))
    return tuple(found)


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
    documents = [_check_one(line, statement) for line, statement in statements]
    _check_whole(text, documents)
    return documents


def compile_set(texts: Sequence[tuple[str, str]]) -> CompiledSet:
    """One set from several named texts, which have been checked before."""
    named: dict[str, Json] = {}
    for origin, text in texts:
        parsed = json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"]
        # The engine names policies policy0, policy1, …; JSON keeps no order of its own, names do.
        order = sorted(parsed, key=lambda name: int(name.removeprefix("policy")))
        for place, position in enumerate(order, start=1):
            document = parsed[position]
            name = document.get("annotations", {}).get("id") or str(place)
            named[_unused(f"{origin}/{name}", named)] = document
    whole = {"staticPolicies": named, "templates": {}, "templateLinks": []}
    handle = cedarpy.PolicySet.from_json_str(json.dumps(whole))
    return CompiledSet(handle, named, frozenset(_attributes(named)))


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
        said = list(map(str, result.diagnostics.errors))
        failed = [match[1] for match in map(_FAILED_POLICY.search, said) if match is not None]
        raise EvaluationFailed("; ".join(said) or "no decision", failed)
    return Verdict(result.allowed, tuple(sorted(result.diagnostics.reasons)))


_FAILED_POLICY = re.compile(r"while evaluating policy `(.+?)`: ")


def resource_type(action: str) -> str:
    """What an action is done to."""
    return _RESOURCE_TYPES[action.split(":")[1]]


def reference(kind: str, entity_id: str) -> dict[str, Any]:
    """An attribute that is an entity, in Cedar's JSON."""
    return {"__entity": {"type": kind, "id": entity_id}}


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
    """The one policy of a statement, as JSON. Raises: InvalidPolicy."""
    code = "".join(character for _, character in _code(statement))
    if len(code) > CODE_MAX:
        raise InvalidPolicy(line, f"at most {CODE_MAX} characters beside strings are allowed")
    if _nesting(code) > NESTING_MAX:
        raise InvalidPolicy(line, f"brackets are nested deeper than {NESTING_MAX}")
    document = _parse_one(line, statement)
    if len(document["conditions"]) > CONDITIONS_MAX:
        raise InvalidPolicy(line, f"at most {CONDITIONS_MAX} when and unless are allowed")
    result = cedarpy.validate_policies(statement, _schema())
    if not result.validation_passed:
        # The engine says the same of each action, in any order.
        said = {_OF_AN_ACTION.sub("", error.error) for error in result.errors}
        found = "; ".join(sorted(each.removeprefix("for policy `policy0`, ") for each in said)[:3])
        raise InvalidPolicy(_nearest(line, statement, found), found)
    return document


_OF_AN_ACTION = re.compile(r' for Action::"[^"]+"')
_NAMED = re.compile(r"`([A-Za-z_]\w*)`|condition: ([A-Za-z_]\w*)")


def _nearest(line: int, statement: str, said: str) -> int:
    """The line of what the engine names in a statement; its first where it names nothing there."""
    code = {position for position, _ in _code(statement)}
    for match in _NAMED.finditer(said):
        for found in re.finditer(rf"\b{match[1] or match[2]}\b", statement):
            if found.start() in code:
                return line + statement.count("\n", 0, found.start())
    return line


def _parse_one(line: int, statement: str) -> Json:
    try:
        text = cedarpy.policies_to_json_str(statement)
    except ValueError as error:
        wrong = f"this is not a Cedar policy: {error}"
        raise InvalidPolicy(_nearest(line, statement, wrong), wrong) from error
    try:
        parsed = json.loads(text)
        cedarpy.PolicySet.from_json_str(text)  # as it will be compiled
    except (ValueError, RecursionError) as error:
        raise InvalidPolicy(line, "an expression is too long: split it into policies") from error
    if parsed["templates"]:
        raise InvalidPolicy(line, "templates (?principal, ?resource) are not supported")
    documents = list(parsed["staticPolicies"].values())
    if len(documents) != 1:
        raise InvalidPolicy(line, "this is not one Cedar policy")
    return documents[0]


def _check_whole(text: str, documents: Sequence[Json]) -> None:
    """What was checked piece by piece must be what the engine makes of the whole text."""
    try:
        compiled = compile_set([("whole", text)])
    except ValueError as error:
        raise InvalidPolicy(1, f"this is not a Cedar text: {error}") from error
    if list(compiled.documents.values()) != list(documents):
        raise InvalidPolicy(1, "the policies of this text cannot be told apart")


def _nesting(code: str) -> int:
    """How deep brackets are at the deepest."""
    depth = deepest = 0
    for character in code:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest


def _statements(text: str) -> list[tuple[int, str]]:
    """Each policy of a text with the line it starts on; the engine gives no lines of its own."""
    found: list[tuple[int, str]] = []
    start = 0
    for position, character in _code(text):
        if character == ";":
            found.append(_located(text, start, position + 1))
            start = position + 1
    if _BLANK.fullmatch(text, start) is None:
        found.append(_located(text, start, len(text)))
    return found


def _code(text: str) -> Iterator[tuple[int, str]]:
    """The characters outside comments and strings, with their places."""
    position = 0
    while position < len(text):
        skipped = _COMMENT_OR_STRING.match(text, position)
        if skipped is not None:
            position = skipped.end()
        else:
            yield position, text[position]
            position += 1


#: As the engine reads them: a comment ends with \r too, and with nothing else that Python takes for
#: the end of a line.
_COMMENT_OR_STRING = re.compile(r'//[^\r\n]*|"(?:\\.|[^"\\])*(?:"|\Z)', re.DOTALL)
_BLANK = re.compile(r"(?:\s|//[^\r\n]*)*")


def _located(text: str, start: int, end: int) -> tuple[int, str]:
    blank = _BLANK.match(text, start, end)
    begin = start if blank is None else blank.end()
    return text.count("\n", 0, begin) + 1, text[begin:end].strip()


def _attributes(node: Json) -> Iterator[str]:
    """Names read with ``.`` or ``has``, and of records, to which a whole context is compared."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            yield from (node["attr"],) if isinstance(node.get("attr"), str) else ()
            yield from node["Record"] if isinstance(node.get("Record"), dict) else ()


def _unused(name: str, taken: Mapping[str, Json]) -> str:
    candidate, number = name, 2
    while candidate in taken:
        candidate = f"{name}-{number}"
        number += 1
    return candidate


def _example_texts() -> dict[str, str]:
    folder = resources.files(__package__) / "policies" / "examples"
    return {
        path.name.removesuffix(".cedar"): path.read_text(encoding="utf-8")
        for path in folder.iterdir()
        if path.name.endswith(".cedar")
    }


def _read(name: str) -> str:
    return (resources.files(__package__) / "policies" / name).read_text(encoding="utf-8")
