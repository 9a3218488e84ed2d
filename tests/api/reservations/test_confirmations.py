"""Stories of the API: an agent asks, its person answers, and nobody else does."""

import json

import pytest

from bettercompute.audit.models import Entry
from bettercompute.iam.models import ApiToken
from tests.support import cast, delegates, make
from tests.support.delegates import CREATE, RELEASE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R36", "A4")]


@pytest.fixture
def pool():
    return make.pool()


def body(pool, **changes):
    return {
        "tenantId": cast.tenant().pk,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": 2}],
        "duration": "8h",
        "idempotencyKey": "night",
        **changes,
    }


def minted(api, **delegation):
    return api.post(
        "/tokens", {"tenantId": cast.tenant().pk, "name": "n", "delegation": delegation}
    )


def test_a_person_lets_an_agent_reserve_and_the_audit_says_who_did_what(pool, clock):
    bob = cast.api("bob")
    token = minted(bob, agent="trainer", confirm=[CREATE]).json()
    assert token["delegation"] == {"agent": "trainer", "confirm": [CREATE]}
    assert bob.get("/tokens").json()["items"][0]["delegation"] == token["delegation"]
    agent = delegates.api(token["token"])
    assert agent.get("/whoami").json()["token"]["delegation"]["agent"] == "trainer"

    preview = {name: value for name, value in body(pool).items() if name != "idempotencyKey"}
    shown = agent.post("/capacity/preview", preview).json()
    assert (shown["fits"], shown["needsConfirmation"]) == (True, True)
    asked = cast.problem(agent.post("/reservations", body(pool)), 403, "CONFIRMATION_REQUIRED")
    details = asked["details"]
    assert details["expiresAt"] - clock.now_ms() == 30 * 60_000
    path = f"/confirmations/{details['confirmationId']}"
    found = agent.get(path)
    assert found.json()["summary"] == "Reserve 2 GPUs for 8h, as soon as it fits"
    assert found.json()["state"] == "open"
    assert agent.get(path, If_None_Match=found["ETag"]).status_code == 304
    waiting = bob.get(f"/reservations/{details['resourceId']}").json()
    assert (waiting["state"], waiting["agent"]) == ("awaiting-confirmation", "trainer")
    assert waiting["confirmationId"] == details["confirmationId"]

    approved = bob.post(f"{path}/approve", {"tenantId": cast.tenant().pk})
    assert approved.json()["state"] == "approved"
    again = bob.post(f"{path}/approve", {"tenantId": cast.tenant().pk})
    assert again.json() == approved.json(), "the same answer again changes nothing"
    denied = bob.post(f"{path}/deny", {"tenantId": cast.tenant().pk})
    cast.problem(denied, 409, "INVALID_STATE")
    placed = agent.post("/reservations", body(pool))
    assert (placed.status_code, placed.json()["state"]) == (201, "placed")
    assert agent.post("/reservations", body(pool)).status_code == 200
    assert agent.get(path).json()["state"] == "used"

    told = list(Entry.objects.order_by("seq").values_list("action", "outcome", "code"))
    assert ("compute:confirmations:request", "allowed", "") in told
    assert (CREATE, "denied", "CONFIRMATION_REQUIRED") in told
    assert ("compute:confirmations:approve", "allowed", "") in told
    done = Entry.objects.get(action=CREATE, outcome="allowed")
    assert done.detail["agent"] == "trainer"
    assert done.detail["approvedBy"] == cast.account("bob").pk
    assert done.detail["confirmationId"] == details["confirmationId"]


def test_only_the_person_answers_and_only_admins_see_others():
    confirmation = delegates.question("bob")
    path, tenant = f"/confirmations/{confirmation.pk}", {"tenantId": cast.tenant().pk}
    alice, carol = cast.api("alice"), cast.api("carol")
    for verb in ("approve", "deny", "withdraw"):
        cast.problem(alice.post(f"{path}/{verb}", tenant), 403, "ACCESS_DENIED")
        cast.problem(carol.post(f"{path}/{verb}", tenant), 404, "NOT_FOUND")
        agent = delegates.agent("bob", RELEASE)
        cast.problem(agent.api.post(f"{path}/{verb}", tenant), 404, "NOT_FOUND")
    assert alice.get(path).json()["username"] == "bob"
    assert alice.get("/confirmations").json()["items"] == []
    (seen,) = alice.get("/confirmations?scope=all&state=open").json()["items"]
    assert seen["id"] == confirmation.pk
    assert carol.get("/confirmations?scope=all").json()["items"] == []
    assert cast.api("bob").get("/confirmations?state=used").json()["items"] == []
    confirmation.refresh_from_db()
    assert confirmation.state == "open"


def test_an_agent_answers_nothing_mints_nothing_and_changes_no_policy():
    """Also where it acts for an admin, and asked the question itself."""
    pool, tenant = make.pool(), {"tenantId": cast.tenant().pk}
    agent = delegates.agent("alice", CREATE)
    asked = cast.problem(agent.api.post("/reservations", body(pool)), 403, "CONFIRMATION_REQUIRED")
    path = f"/confirmations/{asked['details']['confirmationId']}"
    policy = {
        **tenant,
        "name": "all",
        "text": 'permit (principal, action == Action::"compute:reservations:release", resource);',
    }
    own, other = agent.token, cast.token("alice")[0]
    before = ApiToken.objects.count()
    for answer in (
        agent.api.post(f"{path}/approve", tenant),
        agent.api.post(f"{path}/deny", tenant),
        agent.api.post(f"{path}/withdraw", tenant),
        minted(agent.api, agent="child"),
        agent.api.post("/policies", policy),
        agent.api.post("/feeds", tenant),
        agent.api.post(f"/tokens/{other.pk}/revoke", tenant),
    ):
        problem = cast.problem(answer, 403, "ACCESS_DENIED")
        assert problem["details"]["needs"] == "person"
    assert ApiToken.objects.count() == before
    assert agent.api.post(f"/tokens/{own.pk}/revoke", tenant).status_code == 200


def test_withdrawing_is_in_the_audit_and_the_agent_reads_why():
    confirmation = delegates.approved("bob")
    path, tenant = f"/confirmations/{confirmation.pk}", {"tenantId": cast.tenant().pk}
    answer = cast.api("bob").post(f"{path}/withdraw", {**tenant, "reason": "not today"})
    assert (answer.status_code, answer.json()["state"]) == (200, "denied")
    assert answer.json()["reason"] == "not today"
    entry = Entry.objects.get(action="compute:confirmations:withdraw")
    assert (entry.outcome, entry.object_id) == ("allowed", confirmation.pk)


@pytest.mark.parametrize(
    ("confirm", "wrong"),
    [
        (["compute:reservations:read"], "delegation.confirm[0]"),
        ([CREATE, "compute:reservations:fly"], "delegation.confirm[1]"),
    ],
)
def test_what_cannot_wait_cannot_be_held(confirm, wrong):
    answer = minted(cast.api("bob"), agent="trainer", confirm=confirm)
    problem = cast.problem(answer, 400, "INVALID_INPUT")
    assert problem["details"]["errors"][0]["path"] == wrong


@pytest.mark.parametrize("name", ["two\nlines", "turned \u202e", "zero\u200bwidth", "\x1b[2J"])
def test_an_agents_name_is_one_line_that_can_be_read(name):
    answer = minted(cast.api("bob"), agent=name)
    problem = cast.problem(answer, 400, "INVALID_INPUT")
    assert problem["details"]["errors"][0]["path"] == "delegation.agent"


def test_pages_of_confirmations_follow_their_cursor_and_hold_everything_once():
    made = {delegates.question("bob").pk for _ in range(3)}
    bob, seen, cursor = cast.api("bob"), [], ""
    while cursor is not None:
        page = json.loads(bob.get(f"/confirmations?limit=2{cursor}").content)
        seen += [each["id"] for each in page["items"]]
        following = page["nextCursor"]
        cursor = None if following is None else f"&cursor={following}"
    assert seen == sorted(made, reverse=True)
