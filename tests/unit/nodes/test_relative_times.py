"""What agents are told of times is relative, and nothing they decide depends on a clock (C8)."""

import ast
import inspect
import typing
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

import bettercompute.agent
from bettercompute.agent import steps
from bettercompute.agent.atoms import Atoms
from bettercompute.agent.steps import Host, Said
from nodes.protocol import messages
from nodes.protocol.messages import Assignment, Message
from tests.support import supply

pytestmark = pytest.mark.rule("C8")

TOLD = (
    messages.EnrollAnswer,
    messages.ChallengeAnswer,
    messages.HelloAnswer,
    messages.DesiredAnswer,
    messages.ReportsAnswer,
    messages.HeartbeatAnswer,
)
# All that an agent is told of time: seconds from now, and one instant for people to read.
RELATIVE = {"ChallengeAnswer.expires_in_seconds", "HelloAnswer.heartbeat_seconds"}
FOR_PEOPLE = {"Assignment.until"}
NO_TIMES = {
    "EnrollAnswer.node_id",
    "EnrollAnswer.kid",
    "ChallengeAnswer.challenge",
    "HelloAnswer.session_token",
    "HelloAnswer.epoch",
    "HelloAnswer.applied_seq",
    "DesiredAnswer.generation",
    "DesiredAnswer.assignments",
    "DesiredAnswer.ending",
    "Assignment.allocation_id",
    "Assignment.device_ids",
    "Assignment.binding",
    "Assignment.limits",
    "Limits.cpu_millis",
    "Limits.memory_bytes",
    "Limits.hugepages_1gi",
    "ReportsAnswer.applied_seq",
    "ReportsAnswer.rejected",
    "Rejection.seq",
    "Rejection.message",
    "HeartbeatAnswer.epoch",
}


def _types(annotation: Any) -> list[Any]:
    """A type and all that it is made of."""
    inner = [each for part in typing.get_args(annotation) for each in _types(part)]
    return [annotation, *inner]


def _fields(model: type[Message]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        found[f"{model.__name__}.{name}"] = field.annotation
        for each in _types(field.annotation):
            if inspect.isclass(each) and issubclass(each, Message):
                found |= _fields(each)
    return found


def test_every_field_that_an_agent_is_told_is_no_instant() -> None:
    told: dict[str, Any] = {}
    for model in TOLD:
        told |= _fields(model)
    # A new field has to be sorted into one of these by whoever adds it.
    assert set(told) == RELATIVE | FOR_PEOPLE | NO_TIMES
    instants = (datetime, date, time, timedelta)
    assert not [name for name, kind in told.items() if set(_types(kind)) & set(instants)]


@pytest.mark.parametrize("until", [0, 1, 1_772_442_000_000, 2**62])
@pytest.mark.parametrize("said", [{}, {"alloc_held": Said.BOUND}])
def test_an_agent_holds_what_is_wanted_whenever_it_is_said_to_end(
    until: int, said: dict[str, Said]
) -> None:
    inventory = supply.host("host", gpus=2)
    first, second = (gpu.uuid for gpu in inventory.gpus)
    held = Assignment(allocation_id="alloc_held", device_ids=[first], until=7)
    wanted = [
        held.model_copy(update={"until": until}),
        Assignment(allocation_id="alloc_new", device_ids=[second], until=until),
    ]
    planned = steps.plan(
        desired=wanted,
        held={"alloc_held": held},
        said=said,
        host=Host(atoms=Atoms(inventory), memory_gib=inventory.memory_gib),
    )
    bound = [step.assignment.allocation_id for step in planned if isinstance(step, steps.Bind)]
    assert bound == (["alloc_new"] if said else ["alloc_held", "alloc_new"])
    assert len(planned) == len(bound), "nothing is let go"


def test_the_agent_reads_the_wall_clock_in_one_place_which_only_tells_people() -> None:
    package = Path(bettercompute.agent.__file__).parent
    readers = {
        (path.relative_to(package).as_posix(), function.name)
        for path in package.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and node.attr in {"time", "time_ns", "now", "utcnow", "today", "localtime", "gmtime"}
        and isinstance(node.value, ast.Name)
    }
    assert readers == {("session.py", "_wall_clock_ms")}
