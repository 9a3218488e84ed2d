"""`better-compute audit` against a scripted server."""

import csv
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from bettercompute.wire import audit as wire
from tests.support import answers
from tests.unit.cli.conftest import Run, Serve

pytestmark = pytest.mark.rule("A8")


def entry(**changes: Any) -> dict[str, Any]:
    made = wire.AuditEntry(
        id="aud_1",
        at=answers.NOW_MS,
        tenant_id=answers.TENANT_ID,
        actor=wire.AuditActor(
            account_id="usr_bob",
            username="bob",
            role="member",
            operator=False,
            via="token",
            token_id="tok_1",
            token_name="=ci",
        ),
        origin=wire.AuditOrigin(address="203.0.113.9", user_agent="curl", request_id="req_1"),
        action="compute:reservations:release",
        object=wire.AuditObject(kind="reservation", id="rsv_1"),
        outcome="allowed",
        code=None,
        policies=["default/members-release-their-own"],
        detail={"events": ["reservation.released"]},
    )
    return {**made.model_dump(mode="json", by_alias=True), **changes}


def served(serve: Serve) -> Any:
    denied = entry(id="aud_0", outcome="denied", code="ACCESS_DENIED", detail={"agent": "trainer"})
    page = {"items": [entry(), denied], "nextCursor": None}
    return serve({("GET", "/audit"): answers.answer(page)})


def test_it_is_listed_for_people_and_for_programs(run: Run, serve: Serve) -> None:
    served(serve)
    shown = run("audit")
    assert "compute:reservations:release" in shown.out
    assert "denied" in shown.out
    assert "203.0.113.9" in shown.out
    assert "trainer, for bob" in shown.out
    listed = json.loads(run("audit", "--json").out)
    assert [each["id"] for each in listed["items"]] == ["aud_1", "aud_0"]


def test_what_is_asked_for_is_asked_of_the_server(run: Run, serve: Serve) -> None:
    server = served(serve)
    run("audit", "--by", "usr_bob", "--object", "rsv_1", "--outcome", "denied", "--platform")
    query = parse_qs(urlsplit(server.received[-1].path).query)
    assert query["accountId"] == ["usr_bob"]
    assert query["objectId"] == ["rsv_1"]
    assert query["outcome"] == ["denied"]
    assert query["scope"] == ["platform"]


def test_that_there_is_more_is_said(run: Run, serve: Serve) -> None:
    served(serve)
    assert json.loads(run("audit", "--json").out)["more"] is False
    assert json.loads(run("audit", "--json", "--limit", "1").out)["more"] is True
    assert "There are more: give --limit 2" in run("audit", "--limit", "1").err


@pytest.mark.parametrize("name", ["audit.csv", "audit.jsonl"])
def test_all_of_it_goes_into_a_file(run: Run, serve: Serve, tmp_path: Path, name: str) -> None:
    served(serve)
    path = tmp_path / name
    result = run("audit", "--file", str(path))
    assert result.out == ""
    assert "2 entries" in result.err
    if name.endswith(".csv"):
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        assert [row["Entry"] for row in rows] == ["aud_1", "aud_0"]
        assert rows[0]["Token"] == "'=ci", "no formula for a spreadsheet"
    else:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["id"] for line in lines] == ["aud_1", "aud_0"]
