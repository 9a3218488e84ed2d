"""The shipped example policies: what each lets pass and what it refuses."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bettercompute.iam import cedar, decisions
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes, Decision
from bettercompute.iam.delegation import Delegation

pytestmark = pytest.mark.rule("R38")

EXAMPLES = Path(cedar.__file__).parent / "policies" / "examples"
ALICE = Caller(tenant_id="ten_acme", account_id="usr_alice", role="admin")
BOB = Caller(tenant_id="ten_acme", account_id="usr_bob", role="member")
AGENT = Caller(
    tenant_id="ten_acme", account_id="usr_bob", role="member", delegation=Delegation("trainer")
)
OLGA = Caller(tenant_id="ten_acme", account_id="usr_olga", role="member", is_operator=True)
CREATE, EXTEND = "compute:reservations:create", "compute:reservations:extend"
SHARE = "compute:reservations:share"
DAY = 24 * 60
H100S = {"models": ("NVIDIA H100 80GB HBM3",), "region": "eu-west"}


@dataclass(frozen=True)
class Case:
    """A request, and the policy that refuses it; none where it is let through."""

    example: str
    asked: dict[str, Any]
    refused_by: str = ""
    who: Caller = BOB
    action: str = CREATE

    def __str__(self) -> str:
        return f"{self.example}: {self.asked} {self.refused_by or 'allowed'}"


CASES = [
    Case("students", {"gpus": 2, "duration_minutes": 480, "ahead_minutes": 14 * DAY}),
    Case("students", {"gpus": 1, "held_gpus": 1}),
    Case("students", {"gpus": 1, "held_gpus": 2}, "students-at-once"),
    Case("students", {"gpus": 3}, "students-at-once"),
    Case("students", {"gpus": 3, "held_gpus": 9}, who=ALICE),
    Case("students", {"gpus": 1, "duration_minutes": 481}, "students-longest"),
    Case("students", {"gpus": 1, "duration_minutes": 481}, "students-longest", action=EXTEND),
    # What is held was let through when it was made: it may be longer all the same.
    Case("students", {"gpus": 1, "held_gpus": 2}, action=EXTEND),
    Case("students", {"gpus": 1, "ahead_minutes": 14 * DAY + 1}, "students-furthest-ahead"),
    Case("one-at-a-time", {"gpus": 64}),
    Case("one-at-a-time", {"gpus": 1, "held_reservations": 1}, "one-at-a-time"),
    Case("one-at-a-time", {"gpus": 1, "held_reservations": 1}, who=OLGA),
    Case("notice-for-large-jobs", {"gpus": 16}),
    Case("notice-for-large-jobs", {"gpus": 17, "lead_minutes": DAY}),
    Case("notice-for-large-jobs", {"gpus": 17, "lead_minutes": DAY - 1}, "notice-for-large-jobs"),
    Case("priority-is-the-admins", {"priority": -5}),
    Case("priority-is-the-admins", {"priority": 1}, "priority-is-the-admins"),
    Case("priority-is-the-admins", {"priority": 1}, who=ALICE),
    Case("shared-by-few", {"users": 5}),
    Case("shared-by-few", {"users": 6}, "shared-by-few"),
    Case("shared-by-few", {"users": 6}, "shared-by-few", action=SHARE),
    Case("agents-stay-small", {"gpus": 64}),
    Case("agents-stay-small", {"gpus": 8, "duration_minutes": DAY}, who=AGENT),
    Case("agents-stay-small", {"gpus": 9}, "agents-stay-small", who=AGENT),
    Case("agents-stay-small", {"duration_minutes": DAY + 1}, "agents-stay-small", AGENT, EXTEND),
    Case("lead-time", {"lead_minutes": 14 * DAY}),
    Case("lead-time", {"lead_minutes": 14 * DAY + 1}, "members-lead-time"),
    Case("large-jobs-are-spot", {"gpus": 65, "spot": True}),
    Case("large-jobs-are-spot", {"gpus": 65}, "large-jobs-are-spot"),
    Case("freeze", {"gpus": 1}, "freeze"),
    Case("freeze", {"gpus": 1}, who=OLGA),
    Case("h100-limit", {**H100S, "gpus": 8, "duration_minutes": 72 * 60}),
    Case("h100-limit", {**H100S, "gpus": 9}, "h100-limit"),
]


def judge(case: Case) -> Decision:
    text = (EXAMPLES / f"{case.example}.cedar").read_text()
    compiled = cedar.compile_set([("default", cedar.default_text()), (case.example, text)])
    return decisions.judge(
        compiled,
        case.who,
        case.action,
        resource_id="rsv_1",
        attributes=Attributes(**case.asked),
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_example_decides_as_it_says(case: Case) -> None:
    decision = judge(case)
    if not case.refused_by:
        assert decision.allowed, decision.message
        return
    assert decision.policies == (f"{case.example}/{case.refused_by}",)
    assert f"Policy {case.example}/{case.refused_by} denies this: " in decision.message


def test_every_example_fits_the_schema_and_has_a_case_that_it_refuses_and_one_that_it_does_not():
    names = {path.stem for path in EXAMPLES.glob("*.cedar")}
    for name in names:
        cedar.check((EXAMPLES / f"{name}.cedar").read_text())
    assert {case.example for case in CASES if case.refused_by} == names
    assert {case.example for case in CASES if not case.refused_by} == names


@pytest.mark.parametrize(
    ("condition", "weighs"),
    [
        ("context.heldGpus <= 2", True),
        ("context has heldReservations", True),
        ("(if context.spot then context.gpus + context.heldGpus else 0) > 1", True),
        ("context.gpus > 8", False),
        ('context.models.contains("heldGpus")', False),
    ],
)
def test_what_policies_speak_of_is_known(condition: str, weighs: bool) -> None:
    text = f"forbid (principal, action, resource) when {{ {condition} }};"
    compiled = cedar.compile_set([("default", cedar.default_text()), ("own", text)])
    assert bool(compiled.attributes & {"heldGpus", "heldReservations"}) is weighs
