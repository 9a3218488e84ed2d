"""`maintenance add | list | cancel`."""

import json
from typing import Any

import pytest

from bettercompute.cli.exits import Exit
from tests.support import answers
from tests.unit.cli.conftest import Run, Serve

pytestmark = pytest.mark.rule("N18", "A8")

POOLS = ("GET", "/pools")
MAIN = answers.answer({"items": [answers.pool()], "nextCursor": None})
START = "2026-03-09T09:00+01:00"
START_MS = 1_773_043_200_000
ADD = ("maintenance", "add", "--start", START, "--for", "4h", "--reason", "new PSU")


def window(**changes: Any) -> dict[str, Any]:
    return {
        "id": "mnt_1",
        "poolId": "pool_main",
        "nodeId": "node_1",
        "node": "main-0",
        "start": START_MS,
        "end": START_MS + 4 * answers.HOUR_MS,
        "reason": "new PSU",
        "state": "planned",
        "announcedBy": "olga",
        "announcedAt": answers.NOW_MS,
        "version": 1,
        **changes,
    }


AFFECTED = {
    "reservationId": "rsv_1",
    "tenantId": "ten_globex",
    "tenant": "Globex",
    "ownerIdentityId": "usr_m",
    "owner": "mallory",
    "state": "active",
    "during": {"start": START_MS, "end": START_MS + answers.HOUR_MS},
    "nodes": ["main-0"],
    "devices": 2,
}


def operation(**changes: Any) -> dict[str, Any]:
    return {
        "maintenance": window(),
        "applied": True,
        "affected": [AFFECTED],
        "affectedTotal": 1,
        **changes,
    }


def test_it_is_announced_of_a_node_and_says_whom_it_meets(run: Run, serve: Serve) -> None:
    server = serve({("POST", "/nodes/node_1/maintenance"): answers.answer(operation(), status=201)})
    result = run(*ADD, "--node", "node_1")
    assert result.code == 0
    assert result.out.startswith("mnt_1  planned\nmain-0, ")
    assert "rsv_1" in result.out
    assert "Globex" in result.out
    assert "mallory" in result.out
    body = server.received[-1].body
    assert (body["start"], body["duration"], body["reason"]) == (START_MS, 14_400_000, "new PSU")


def test_a_preview_announces_nothing(run: Run, serve: Serve) -> None:
    found = operation(maintenance=None, applied=False, affected=[], affectedTotal=0)
    path = ("POST", "/pools/pool_main/maintenance")
    server = serve({POOLS: MAIN, path: answers.answer(found)})
    result = run(*ADD, "--pool", "main", "--preview")
    assert result.out == "Nothing is announced. It would meet:\nnobody\n"
    assert server.received[-1].body["preview"] is True


def test_it_is_listed_by_start_and_called_off(run: Run, serve: Serve) -> None:
    later = window(id="mnt_2", nodeId=None, node=None, start=START_MS + 1, state="under-way")
    listed = answers.answer({"items": [later, window()], "nextCursor": None})
    cancelled = operation(maintenance=window(state="cancelled"), affected=[], affectedTotal=0)
    serve(
        {
            POOLS: MAIN,
            ("GET", "/pools/pool_main/maintenance"): listed,
            ("POST", "/maintenance/mnt_1/cancel"): answers.answer(cancelled),
        }
    )
    found = json.loads(run("maintenance", "list", "--json").out)["items"]
    assert [each["id"] for each in found] == ["mnt_1", "mnt_2"]
    assert "all of it" in run("maintenance", "list", "--pool", "main").out
    assert run("maintenance", "cancel", "mnt_1").out.startswith("mnt_1  cancelled\n")


@pytest.mark.parametrize("more", [(), ("--pool", "main", "--node", "node_1")])
def test_a_pool_or_a_node_is_named(run: Run, more: tuple[str, ...]) -> None:
    assert run(*ADD, *more).code == Exit.USAGE
