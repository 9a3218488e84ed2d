"""`policy try` and `policy examples`: what would be decided, in words one can act on."""

import json
from pathlib import Path

import pytest

from bettercompute.cli.exits import Exit
from tests.support import answers
from tests.support.wire_server import Received
from tests.unit.cli.conftest import Run, Serve

pytestmark = pytest.mark.rule("R38")

POOLS = ("GET", "/pools")
EXAMPLES = ("GET", "/policies/examples")
DRY_RUN = ("POST", "/policies/dry-run")
MAIN = answers.answer({"items": [answers.pool()], "nextCursor": None})
STUDENTS = {"name": "students", "about": "At most 2 GPUs.", "text": "// At most.\nforbid(…);"}
LISTED = answers.answer({"items": [STUDENTS], "nextCursor": None})
ASK = ("policy", "try", "--pool", "main", "--gpus", "4", "--for", "8h")

DENIED = {
    "effect": "deny",
    "policies": ["draft/students"],
    "message": "Policy draft/students denies this: at most 2.",
    "details": {},
    "attributes": {"gpus": 4, "models": ["H100", "A100"], "spot": False},
    "recent": {
        "judged": 100,
        "denied": [
            {
                "reservationId": "rsv_1",
                "ownerIdentityId": "usr_1",
                "state": "active",
                "createdAt": answers.NOW_MS - answers.HOUR_MS,
                "policies": ["draft/students"],
                "message": "no",
            }
        ],
    },
}


def test_a_denial_says_by_what_on_what_and_whom_else_it_would_meet(run: Run, serve: Serve) -> None:
    asked = []

    def answer(received: Received) -> answers.Answer:
        asked.append(received.body)
        return answers.answer(DENIED)

    serve({POOLS: MAIN, EXAMPLES: LISTED, DRY_RUN: answer})
    result = run(*ASK, "--example", "students", "--as", "member")
    assert result.code == Exit.DENIED
    lines = result.out.splitlines()
    assert lines[:2] == [
        "Denied by draft/students.",
        "  Policy draft/students denies this: at most 2.",
    ]
    assert "models     H100, A100" in lines
    assert "spot       false" in lines
    assert "Of the latest 100 reservations 1 would be denied." in lines
    assert lines[-1].split()[:2] == ["rsv_1", "active"]
    assert asked[0]["text"] == STUDENTS["text"]
    assert (asked[0]["role"], asked[0]["recent"]) == ("member", 100)
    assert asked[0]["reservation"]["devices"] == [{"class": "gpu", "count": 4}]
    assert json.loads(run(*ASK, "--json").out) == DENIED
    run(*ASK, "--agent")
    assert ["delegated" in each for each in asked] == [False, False, True]


def test_a_text_comes_from_a_file(run: Run, serve: Serve, tmp_path: Path) -> None:
    asked = []

    def answer(received: Received) -> answers.Answer:
        asked.append(received.body)
        return answers.answer(
            {**DENIED, "effect": "allow", "policies": ["default/members"], "recent": None}
        )

    serve({POOLS: MAIN, DRY_RUN: answer})
    path = tmp_path / "own.cedar"
    path.write_text("forbid(principal, action, resource);")
    result = run(*ASK, "--file", str(path), "--recent", "0", "--replaces", "pol_1")
    assert result.code == Exit.OK
    assert result.out.splitlines()[0] == "Allowed by default/members."
    assert (asked[0]["text"], asked[0]["replaces"]) == (path.read_text(), "pol_1")
    assert run(*ASK, "--file", "x", "--example", "y").code == Exit.USAGE
    assert run(*ASK, "--file", str(tmp_path / "none")).code == Exit.ERROR
    path.write_bytes(b"// \xff")
    refused = run(*ASK, "--file", str(path))
    assert (refused.code, "not valid UTF-8" in refused.err) == (Exit.USAGE, True)


def test_examples_are_listed_and_printed(run: Run, serve: Serve) -> None:
    serve({EXAMPLES: LISTED})
    assert run("policy", "examples").out.splitlines()[1].split("  ")[0] == "students"
    assert run("policy", "examples", "students").out == "// At most.\nforbid(…);\n"
    unknown = run("policy", "examples", "teachers")
    assert unknown.code == Exit.USAGE
    assert "there are students" in unknown.err
