"""`feeds create | list | revoke` against a scripted server."""

from typing import Any

import pytest

from bettercompute.client.calls import Answer
from bettercompute.wire.feeds import FeedCreated
from tests.support import answers
from tests.unit.cli.conftest import Run, Serve

pytestmark = pytest.mark.rule("A8")

URL = "https://compute.example.org/feeds/bcf_1_secret.ics"
MAIN = answers.answer({"items": [answers.pool()], "nextCursor": None})


def feed(**changes: Any) -> dict[str, Any]:
    made = FeedCreated(
        id="cal_1",
        tenant_id=answers.TENANT_ID,
        account_id="usr_alice",
        username="alice",
        pool_id=None,
        created_at=answers.NOW_MS,
        last_read_at=None,
        revoked_at=None,
        url=URL,
    )
    return {**made.model_dump(by_alias=True), **changes}


def shown(**changes: Any) -> Answer:
    return answers.answer(feed(**changes), 201)


def test_the_address_is_printed_and_how_to_end_it_told(run: Run, serve: Serve) -> None:
    server = serve({("GET", "/pools"): MAIN, ("POST", "/feeds"): shown(poolId="pool_main")})
    result = run("feeds", "create", "--pool", "main")
    assert result.out == f"{URL}\n"
    assert "better-compute feeds revoke cal_1" in result.err
    assert server.received[-1].body["poolId"] == "pool_main"
    run("feeds", "create")
    assert "poolId" not in server.received[-1].body


def test_feeds_are_listed_with_when_they_were_read(run: Run, serve: Serve) -> None:
    page = {
        "items": [feed(), feed(id="cal_0", poolId="pool_main", lastReadAt=answers.NOW_MS)],
        "nextCursor": None,
    }
    serve({("GET", "/pools"): MAIN, ("GET", "/feeds"): answers.answer(page)})
    first, second = run("feeds", "list").out.splitlines()[1:]
    assert first.split() == ["cal_1", "reservations", "alice", "never"]
    assert second.split() == ["cal_0", "main", "alice", "today", "10:00"]
    assert run("feeds", "list", "--output", "id").out == "cal_1\ncal_0\n"


def test_one_is_ended(run: Run, serve: Serve) -> None:
    serve({("POST", "/feeds/cal_1/revoke"): shown(revokedAt=answers.NOW_MS)})
    assert run("feeds", "revoke", "cal_1").out == "cal_1  revoked\n"
