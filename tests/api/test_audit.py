"""`GET /audit`: admins read what was done at their tenant, operators all of it."""

import json
from typing import Any

import pytest
from django.db import connection
from django.urls import reverse

from bettercompute import clock
from bettercompute.audit import entries
from bettercompute.audit.models import Entry
from bettercompute.web import pagination
from tests.conftest import SimulatedClock
from tests.support import cast, make

pytestmark = [pytest.mark.django_db, pytest.mark.rule("A5")]


def read(name: str, query: str = "") -> dict[str, Any]:
    answer = cast.api(name).get(f"/audit{query}")
    assert answer.status_code == 200, answer.content
    document: dict[str, Any] = json.loads(answer.content)
    return document


def done(name: str, count: int = 1) -> list[str]:
    """Tokens made by somebody; answers their ids."""
    api = cast.api(name)
    tenant = cast.caller(name).tenant_id
    made = [api.post("/tokens", {"tenantId": tenant, "name": f"t{n}"}) for n in range(count)]
    return [json.loads(answer.content)["id"] for answer in made]


@pytest.mark.rule("A2", "R38")
def test_an_admin_reads_who_did_what_at_the_tenant_and_nowhere_else(clock: SimulatedClock) -> None:
    (token,) = done("bob")
    done("mallory")
    (entry,) = read("alice")["items"]
    assert entry["actor"]["username"] == "bob"
    assert entry["action"] == "iam:tokens:create"
    assert entry["object"] == {"kind": "token", "id": token}
    assert entry["at"] == clock.now_ms()
    assert (entry["outcome"], entry["code"]) == ("allowed", None)
    assert entry["origin"]["address"] == "127.0.0.1"


def test_a_member_may_not_and_that_is_told() -> None:
    cast.problem(cast.api("bob").get("/audit"), 403, "ACCESS_DENIED")
    (entry,) = read("alice")["items"]
    assert (entry["action"], entry["outcome"]) == ("compute:audit:read", "denied")


def test_another_tenant_is_not_there() -> None:
    path = f"/audit?tenantId={cast.tenant('globex').pk}"
    cast.problem(cast.api("alice").get(path), 404, "NOT_FOUND")


@pytest.mark.rule("A2", "R38")
def test_operators_read_all_of_it_and_nobody_else_does() -> None:
    done("bob")
    done("mallory")
    items = read("olga", "?scope=platform")["items"]
    assert {item["actor"]["username"] for item in items} == {"bob", "mallory"}
    cast.problem(cast.api("alice").get("/audit?scope=platform"), 403, "ACCESS_DENIED")


def test_a_tenant_learns_what_an_operator_did_and_not_from_where() -> None:
    made = make.reservation(cast.caller("alice"), make.pool())
    olga = cast.session("olga", check_csrf=False)
    path = reverse("admin:reservations_reservation_operate", args=["release"])
    olga.post(path, {"id": made.pk, "reason": "the rack is moved"})
    (entry,) = read("alice", f"?objectId={made.pk}")["items"]
    assert (entry["actor"]["username"], entry["actor"]["operator"]) == ("olga", True)
    assert entry["detail"]["reason"] == "the rack is moved"
    assert entry["origin"]["address"] == ""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("accountId={bob}", 3),
        ("objectId={token}", 1),
        ("action=iam:tokens:create", 4),
        ("action=iam:tokens", 0),
        ("outcome=allowed", 4),
        ("outcome=denied", 0),
        ("from={now}", 4),
        ("to={now}", 0),
    ],
)
def test_each_filter_narrows_it(query: str, expected: int) -> None:
    token, *_ = done("bob", 3)
    done("alice")
    bob = cast.account("bob").pk
    asked = query.format(bob=bob, token=token, now=clock.now_ms())
    assert len(read("alice", f"?{asked}")["items"]) == expected


def test_pages_have_every_entry_once_also_of_one_instant() -> None:
    done("bob", 5)
    seen: list[str] = []
    query = "?limit=2"
    while True:
        page = read("alice", query)
        seen += [item["id"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        query = f"?limit=2&cursor={page['nextCursor']}"
    assert len(seen) == len(set(seen)) == 5
    assert seen == list(Entry.objects.order_by("-seq").values_list("id", flat=True))


@pytest.mark.parametrize("position", [[10**30, 1], [1, 10**30], [-(10**30), 1], [1, -1], ["a", 1]])
def test_a_cursor_that_is_none_is_refused(position: list[object]) -> None:
    cursor = pagination.encode("audit", *position)
    cast.problem(cast.api("alice").get(f"/audit?cursor={cursor}"), 400, "INVALID_INPUT")


@pytest.mark.parametrize(
    ("conditions", "index"),
    [
        ({"tenant_id": "ten_7"}, "audit_by_tenant"),
        ({"object_id": "tok_7"}, "audit_by_object"),
        ({"account_id": "usr_7"}, "audit_by_account"),
        ({}, "audit_by_time"),
    ],
)
def test_a_search_reads_along_an_index(conditions: dict[str, str], index: str) -> None:
    names = ("tenant_id", "account_id", "object_id", "action", "outcome", "start", "end")
    values = {**dict.fromkeys((*names, "after_at", "after_seq")), **conditions, "limit": 50}
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO audit_entries (id, at, tenant_id, account_id, username, operator, role,"
            " via, token_id, token_name, address, user_agent, request_id, action, object_kind,"
            " object_id, outcome, code, policies, detail, key_id, mac)"
            " SELECT 'aud_' || n, compute_now() - n * interval '1 second', 'ten_' || n % 50,"
            " 'usr_' || n % 200, '', false, '', 'token', '', '', '', '', '', 'a', 'token',"
            " 'tok_' || n % 500, 'allowed', '', '{}', '{}', '', '' FROM generate_series(1, 5000) n"
        )
        cursor.execute("ANALYZE audit_entries")
        cursor.execute(f"EXPLAIN {entries.ENTRIES.texts['search']}", values)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert index in plan, plan
    assert "Seq Scan" not in plan
