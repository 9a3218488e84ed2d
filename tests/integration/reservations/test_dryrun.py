"""The policy dry run: a request decided without storing it, and what would have been denied."""

import pytest

from bettercompute.iam import cedar, policies
from pools.models import Pool
from reservations.confirming import deciding
from reservations.models import Reservation
from tests.support import cast, delegates, make
from tests.support.delegates import CREATE

pytestmark = [pytest.mark.django_db, pytest.mark.rule("R38")]

EIGHT = """
@id("eight")
forbid (principal, action == Action::"compute:reservations:create", resource)
unless { context.gpus <= 2 };
"""
AT_ONCE = """
@id("at-once")
forbid (principal, action == Action::"compute:reservations:create", resource)
when { context.gpus + context.heldGpus > 4 };
"""


@pytest.fixture
def pool() -> Pool:
    return make.pool(nodes=2)


def body(pool: Pool, **changes):
    return {
        "tenantId": cast.tenant().pk,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": 2}],
        "duration": "90m",
        **changes,
    }


def try_(who: str, reservation, **changes):
    asked = {
        "tenantId": cast.tenant().pk,
        "action": "compute:reservations:create",
        "reservation": reservation,
        **changes,
    }
    return cast.api(who).post("/policies/dry-run", asked)


def test_a_request_is_decided_on_what_a_create_would_tell_and_nothing_is_stored(pool):
    start = 1_772_442_000_000 + 2 * 3_600_000
    asked = body(pool, start=start, priority=7, spot=True)
    shown = try_("bob", asked).json()
    assert shown["effect"] == "allow"
    assert shown["policies"] == ["default/members-create-read-and-extend"]
    expected = {
        "gpus": 2,
        "gpuMilli": 2_000,
        "classes": ["gpu"],
        "models": ["H100"],
        "durationMinutes": 90,
        "leadMinutes": 120,
        "aheadMinutes": 210,
        "priority": 7,
        "users": 0,
        "spot": True,
        "heldGpus": 0,
        "pool": pool.pk,
        "role": "member",
    }
    assert {name: shown["attributes"][name] for name in expected} == expected
    assert shown["recent"] is None
    assert not Reservation.objects.exists()


def test_a_text_that_is_not_saved_decides_and_so_does_a_role(pool):
    text = next(each.text for each in cedar.examples() if each.name == "students")
    three = body(pool, devices=[{"class": "gpu", "count": 3}])
    refused = try_("alice", three, text=text, role="member").json()
    assert (refused["effect"], refused["policies"]) == ("deny", ["draft/students-at-once"])
    assert try_("alice", three, text=text).json()["effect"] == "allow"  # an admin
    # What the caller holds is counted where the text weighs it.
    make.reservation(cast.caller("bob"), pool, gpus=3)
    assert try_("bob", body(pool), text=AT_ONCE).json()["attributes"]["heldGpus"] == 3
    assert try_("bob", body(pool), text=AT_ONCE).json()["policies"] == ["draft/at-once"]
    assert try_("alice", body(pool), text=AT_ONCE).json()["effect"] == "allow"


def test_the_latest_reservations_are_judged_as_they_were_asked_for(pool, clock):
    alice, bob = cast.caller("alice"), cast.caller("bob")
    make.reservation(bob, pool, gpus=4)
    clock.advance("1m")
    make.reservation(alice, pool, gpus=2)
    clock.advance("1m")
    large = make.reservation(alice, pool, gpus=8)
    shown = try_("bob", body(pool), text=EIGHT, recent=2).json()
    assert shown["effect"] == "allow"
    assert shown["recent"]["judged"] == 2
    (denied,) = shown["recent"]["denied"]
    assert denied["reservationId"] == large.pk
    assert denied["ownerIdentityId"] == alice.account_id
    assert denied["policies"] == ["draft/eight"]
    assert "gpus must be at most 2, not 8" in denied["message"]
    assert len(try_("bob", body(pool), text=EIGHT, recent=500).json()["recent"]["denied"]) == 2
    assert try_("bob", body(pool), recent=500).json()["recent"]["denied"] == []
    # By role: each owner's own.
    members = EIGHT.replace("resource)", 'resource) when { context.role == "member" }')
    only = try_("alice", body(pool), text=members, recent=10).json()["recent"]["denied"]
    assert [each["ownerIdentityId"] for each in only] == [bob.account_id]


FEW_FOR_AGENTS = """
@id("few")
forbid (principal, action == Action::"compute:reservations:create", resource)
when { context.delegated && context.gpus > 1 };
"""


def test_a_policy_for_agents_is_tried_as_an_agent(pool):
    for delegated, effect in ((True, "deny"), (False, "allow"), (None, "allow")):
        shown = try_("alice", body(pool), text=FEW_FOR_AGENTS, delegated=delegated).json()
        assert shown["effect"] == effect
    agent = delegates.agent("alice").api
    asked = {"tenantId": cast.tenant().pk, "action": CREATE, "attributes": {"gpus": 2}}
    for changes, effect in (({}, "deny"), ({"delegated": False}, "allow")):
        shown = agent.post("/policies/dry-run", {**asked, "text": FEW_FOR_AGENTS, **changes})
        assert shown.json()["effect"] == effect


def test_what_an_agent_reserved_is_judged_as_its_own_unless_its_person_was_asked(pool):
    two = [{"class": "gpu", "count": 2}]
    make.reservation(cast.caller("alice"), pool, devices=two)
    alone = delegates.create(delegates.agent("alice"), pool, devices=two)
    asking = delegates.agent("alice", CREATE)
    confirmation = delegates.refused(lambda: delegates.create(asking, pool, "held", devices=two))
    deciding.approve(cast.caller("alice"), confirmation_id=confirmation.pk)
    assert delegates.create(asking, pool, "held", devices=two).state == "placed"
    shown = try_("alice", body(pool), text=FEW_FOR_AGENTS, recent=10).json()
    assert shown["recent"]["judged"] == 3
    assert [each["reservationId"] for each in shown["recent"]["denied"]] == [alone.pk]


def test_what_replaces_a_saved_policy_is_judged_in_its_place(pool):
    saved = policies.create(cast.caller("alice"), draft=policies.Draft("limits", EIGHT))
    four = body(pool, devices=[{"class": "gpu", "count": 4}])
    assert try_("bob", four).json()["policies"] == ["limits/eight"]
    wider = EIGHT.replace("<= 2", "<= 4")
    assert try_("bob", four, text=wider).json()["effect"] == "deny"
    assert try_("bob", four, text=wider, replaces=saved.pk).json()["effect"] == "allow"


def test_it_judges_only_ones_own_tenant(pool):
    make.reservation(cast.caller("alice"), pool)
    other = {"tenantId": cast.tenant("globex").pk}
    foreign = try_("mallory", {**body(pool), **other}, **other)
    cast.problem(foreign, 404, "NOT_FOUND")
    action = {"action": "compute:reservations:create", "recent": 10}
    shown = cast.api("mallory").post("/policies/dry-run", {**other, **action}).json()
    assert shown["recent"] == {"judged": 0, "denied": []}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"attributes": {"gpus": 1}}, "reservation"),
        ({"reservation": {"tenantId": "ten_x"}}, "reservation.tenantId"),
        ({"reservation": {"duration": "never"}}, "reservation.duration"),
        ({"reservation": {"users": ["usr_x"]}}, "reservation.users[0]"),
        ({"replaces": "pol_x"}, "replaces"),
        ({"reservation": None, "attributes": {"owner": "usr_x"}}, "attributes.owner"),
        ({"recent": 501}, "recent"),
        ({"text": "permit"}, "text"),
    ],
)
def test_what_is_wrong_is_named(pool, changes, path):
    said = changes.pop("reservation", {})
    asked = None if said is None else body(pool, **said)
    problem = cast.problem(try_("bob", asked, **changes), 400, "INVALID_INPUT")
    assert problem["details"]["errors"][0]["path"] == path


TOO_MUCH = """
forbid (principal, action, resource)
when { context.gpus == 2 && context.gpus * 9223372036854775807 > 9 };
"""


@pytest.mark.parametrize("recent", [False, True], ids=["asked for", "recent"])
def test_a_text_that_fails_on_what_it_is_asked_is_refused_as_one(pool, recent):
    make.reservation(cast.caller("alice"), pool, gpus=2)
    changes = {"reservation": None, "recent": 1} if recent else {"reservation": body(pool)}
    problem = cast.problem(try_("bob", **changes, text=TOO_MUCH), 400, "INVALID_INPUT")
    (wrong,) = problem["details"]["errors"]
    assert wrong["path"] == "text"
    assert "draft" in wrong["message"]
    assert "overflow" in wrong["message"]


def test_the_shipped_examples_are_listed():
    items = cast.api("bob").get("/policies/examples").json()["items"]
    students = next(item for item in items if item["name"] == "students")
    assert students["about"].startswith("Members (students) hold at most 2 GPUs at once")
    assert "forbid" in students["text"]
