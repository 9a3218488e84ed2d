"""`users add | remove`, `reserve --user`, `list --shared` against a scripted server."""

import pytest

from bettercompute.cli.exits import Exit
from tests.support import answers
from tests.unit.cli.conftest import Run, Serve

USERS = ("POST", "/reservations/rsv_first/users")
MEMBERS = ("GET", "/members")
POOLS = ("GET", "/pools")
MAIN = answers.answer({"items": [answers.pool()], "nextCursor": None})
PEOPLE = answers.answer(answers.members("bob", "carol"))

pytestmark = pytest.mark.rule("A8")


def shared(*names: str) -> dict[str, object]:
    return answers.reservation("active", users=[f"usr_{name}" for name in names])


def test_names_become_ids_and_are_shown_as_names(run: Run, serve: Serve) -> None:
    server = serve({MEMBERS: PEOPLE, POOLS: MAIN, USERS: answers.answer(shared("bob", "carol"))})
    result = run("users", "add", "rsv_first", "bob", "usr_carol")
    assert result.code == 0
    (sent,) = [each.body for each in server.received if each.method == "POST"]
    assert (sent["add"], sent["remove"]) == (["usr_bob", "usr_carol"], [])
    assert "Shared with  bob, carol\n" in result.out


def test_whoever_is_no_member_is_named_and_nothing_is_sent(run: Run, serve: Serve) -> None:
    server = serve({MEMBERS: PEOPLE})
    result = run("users", "remove", "rsv_first", "bob", "mallory")
    assert result.code == Exit.NOT_FOUND
    assert "There is no member mallory in this tenant." in result.err
    assert {each.method for each in server.received} == {"GET"}


def test_one_is_reserved_for_several(run: Run, serve: Serve) -> None:
    made = answers.answer(shared("bob", "carol"), 201)
    server = serve({POOLS: MAIN, MEMBERS: PEOPLE, ("POST", "/reservations"): made})
    reserve = ("reserve", "--pool", "main", "--gpus", "2", "--for", "8h")
    assert run(*reserve, "--user", "bob", "--user", "carol").code == 0
    (sent,) = [each.body for each in server.received if each.method == "POST"]
    assert sent["users"] == ["usr_bob", "usr_carol"]


def test_what_others_share_is_listed_apart(run: Run, serve: Serve) -> None:
    page = {"items": [shared("bob")], "nextCursor": None}
    server = serve({POOLS: MAIN, ("GET", "/reservations"): answers.answer(page)})
    assert run("list", "--shared", "--output", "id").out == "rsv_first\n"
    assert "scope=shared" in server.received[0].path
    assert run("list", "--shared", "--all").code == Exit.USAGE
