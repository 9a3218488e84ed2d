"""Stories of the API: tokens and policies, from the outside."""

import pytest

from tests.conftest import SimulatedClock
from tests.support import cast

pytestmark = pytest.mark.django_db

TEXT = '@id("eight") forbid(principal, action, resource) unless { context.gpus <= 8 };'


@pytest.mark.rule("A2")
def test_a_token_is_shown_once_works_and_is_revoked() -> None:
    api, tenant = cast.api("bob"), cast.tenant("acme").pk
    created = api.post("/tokens", {"tenantId": tenant, "name": " ci "})
    assert created.status_code == 201
    token = created.json()
    assert token["name"] == "ci"
    bearer = {"Authorization": f"Bearer {token['token']}"}
    assert cast.api(None).get("/whoami", **bearer).json()["token"] == {
        "id": token["id"],
        "name": "ci",
        "delegation": None,
    }
    listed = api.get("/tokens")
    assert token["token"] not in listed.content.decode()
    assert "token" not in listed.json()["items"][0]
    revoked = api.post(f"/tokens/{token['id']}/revoke", {"tenantId": tenant})
    assert revoked.json()["revokedAt"] is not None
    cast.problem(cast.api(None).get("/whoami", **bearer), 401, "UNAUTHENTICATED")


def test_a_token_may_expire_but_not_in_the_past(clock: SimulatedClock) -> None:
    api, tenant = cast.api("bob"), cast.tenant("acme").pk
    for moment in (clock.now_ms(), 0):
        body = {"tenantId": tenant, "name": "ci", "expiresAt": moment}
        document = cast.problem(api.post("/tokens", body), 400, "INVALID_INPUT")
        assert document["details"]["errors"][0]["path"] == "expiresAt"
    body = {"tenantId": tenant, "name": "ci", "expiresAt": clock.now_ms() + 60_000}
    plaintext = api.post("/tokens", body).json()["token"]
    bearer = {"Authorization": f"Bearer {plaintext}"}
    assert cast.api(None).get("/whoami", **bearer).status_code == 200
    clock.advance("1m")
    cast.problem(cast.api(None).get("/whoami", **bearer), 401, "UNAUTHENTICATED")


@pytest.mark.rule("A5")
def test_pages_of_tokens_follow_their_cursor_and_hold_everything_once() -> None:
    api = cast.api("bob")
    for _ in range(6):
        cast.token("bob")
    seen: list[str] = []
    cursor = ""
    while True:
        page = api.get(f"/tokens?limit=3{cursor}").json()
        seen += [token["id"] for token in page["items"]]
        if page["nextCursor"] is None:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert len(seen) == len(set(seen)) == 7
    assert seen == sorted(seen, reverse=True)


def test_members_list_their_own_tokens_and_admins_all() -> None:
    cast.token("bob")
    assert {token["username"] for token in cast.api("alice").get("/tokens").json()["items"]} == {
        "alice",
        "bob",
    }
    assert {token["username"] for token in cast.api("bob").get("/tokens").json()["items"]} == {
        "bob"
    }


@pytest.mark.rule("C2")
def test_a_policy_is_written_under_its_version() -> None:
    api, tenant = cast.api("alice"), cast.tenant("acme").pk
    body = {"tenantId": tenant, "name": "limits", "text": TEXT}
    created = api.post("/policies", body)
    assert (created.status_code, created["ETag"]) == (201, '"1"')
    path = f"/policies/{created.json()['id']}"
    assert created["Location"] == f"/api/v1{path}"
    assert api.get(path, If_None_Match='"1"').status_code == 304
    cast.problem(api.post("/policies", body), 409, "CONFLICT")
    changed = api.send("PUT", path, body | {"enabled": False}, If_Match='"1"')
    assert (changed.status_code, changed["ETag"]) == (200, '"2"')
    stale = cast.problem(api.send("PUT", path, body, If_Match='"1"'), 412, "PRECONDITION_FAILED")
    assert stale["details"] == {"version": 2}
    assert api.send("DELETE", path, If_Match='"2"').status_code == 204
    cast.problem(api.get(path), 404, "NOT_FOUND")


def test_members_read_policies_and_admins_write_them() -> None:
    alice, tenant = cast.api("alice"), cast.tenant("acme").pk
    body = {"tenantId": tenant, "name": "limits", "text": TEXT}
    cast.problem(cast.api("bob").post("/policies", body), 403, "ACCESS_DENIED")
    cast.problem(alice.post("/policies", body | {"scope": "platform"}), 403, "ACCESS_DENIED")
    shared = {
        "tenantId": cast.tenant("platform").pk,
        "name": "all",
        "text": TEXT,
        "scope": "platform",
    }
    olga = cast.api("olga")
    made = cast.api("olga").post(
        "/policies", {**shared, "tenantId": olga.get("/whoami").json()["tenants"][0]["id"]}
    )
    assert made.status_code == 201
    alice.post("/policies", body)
    listed = cast.api("bob").get("/policies").json()["items"]
    assert [(policy["scope"], policy["name"]) for policy in listed] == [
        ("platform", "all"),
        ("tenant", "limits"),
    ]
    cast.problem(alice.send("PUT", f"/policies/{made.json()['id']}", body), 400, "INVALID_INPUT")


def test_a_dry_run_says_which_bound_fails_and_stores_nothing() -> None:
    api, tenant = cast.api("alice"), cast.tenant("acme").pk
    body = {
        "tenantId": tenant,
        "action": "compute:reservations:create",
        "role": "member",
        "attributes": {"gpus": 9, "memoryGiB": 64},
        "text": TEXT,
    }
    verdict = api.post("/policies/dry-run", body).json()
    assert verdict["effect"] == "deny"
    assert verdict["policies"] == ["draft/eight"]
    assert verdict["details"]["limits"] == [
        {"attribute": "gpus", "operator": "<=", "limit": 8, "asked": 9, "policy": "draft/eight"}
    ]
    assert api.get("/policies").json() == {"items": [], "nextCursor": None}
    del body["text"]
    assert api.post("/policies/dry-run", body).json()["effect"] == "allow"
