"""Policy documents as rows, and the sets compiled from them."""

import pytest
from pytest_django import DjangoAssertNumQueries

from bettercompute.errors import (
    AccessDenied,
    Conflict,
    InvalidInput,
    NotFound,
    PreconditionFailed,
)
from bettercompute.iam import decisions, policies, tokens
from bettercompute.iam.callers import for_only_tenant
from bettercompute.iam.decisions import Attributes
from bettercompute.iam.models import Policy
from bettercompute.iam.policies import Draft
from tests.support import cast

pytestmark = pytest.mark.django_db

CREATE = "compute:reservations:create"
EIGHT = Draft(
    "limits", '@id("eight") forbid(principal, action, resource) unless { context.gpus <= 8 };'
)
FOUR = Draft(
    "limits", '@id("four") forbid(principal, action, resource) unless { context.gpus <= 4 };'
)


def allows(name: str, gpus: int) -> bool:
    decision = decisions.decide(
        cast.caller(name), CREATE, resource_id="rsv_1", attributes=Attributes(gpus=gpus)
    )
    return decision.allowed


def test_a_tenants_policy_binds_it_and_nobody_else() -> None:
    assert allows("bob", 9)
    policies.create(cast.caller("alice"), draft=EIGHT)
    assert not allows("bob", 9)
    assert allows("bob", 8)
    assert allows("mallory", 9)


def test_a_platform_policy_binds_everybody() -> None:
    policies.create(cast.caller("olga"), draft=EIGHT, platform=True)
    assert not allows("alice", 9)
    assert not allows("mallory", 9)
    decision = decisions.decide(
        cast.caller("bob"), CREATE, resource_id="rsv_1", attributes=Attributes(gpus=9)
    )
    assert decision.policies == ("limits/eight",)


def test_each_change_binds_from_the_next_decision_on() -> None:
    alice = cast.caller("alice")
    stored = policies.create(alice, draft=EIGHT)
    assert not allows("bob", 9)
    policies.replace(alice, stored.pk, draft=FOUR)
    assert not allows("bob", 5)
    policies.replace(alice, stored.pk, draft=Draft("limits", FOUR.text, enabled=False))
    assert allows("bob", 9)
    policies.replace(alice, stored.pk, draft=FOUR)
    assert not allows("bob", 5)
    policies.delete(alice, stored.pk)
    assert allows("bob", 9)


def test_a_change_within_a_lived_in_process_is_seen_by_a_known_token() -> None:
    """The fingerprint comes with authentication: a later request never sees an older set."""
    _, plaintext = cast.token("bob")
    asked = Attributes(gpus=9)

    def by_token() -> bool:
        caller = for_only_tenant(tokens.find(plaintext).identity)
        return decisions.decide(caller, CREATE, resource_id="rsv_1", attributes=asked).allowed

    assert by_token()
    stored = policies.create(cast.caller("alice"), draft=EIGHT)
    assert not by_token()
    policies.delete(cast.caller("alice"), stored.pk)
    assert by_token()


def test_a_decision_with_authentications_fingerprint_costs_no_query(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    policies.create(cast.caller("alice"), draft=EIGHT)
    _, plaintext = cast.token("bob")
    caller = for_only_tenant(tokens.find(plaintext).identity)
    decisions.decide(caller, CREATE, resource_id="rsv_1")
    with django_assert_num_queries(0):
        decisions.decide(caller, CREATE, resource_id="rsv_1")
    with django_assert_num_queries(1):
        decisions.decide(
            type(caller)(
                **{name: getattr(caller, name) for name in ("tenant_id", "account_id", "role")}
            ),
            CREATE,
            resource_id="rsv_1",
        )


def test_the_cache_of_sets_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "COMPILED_SETS_MAX", 3)
    alice = cast.caller("alice")
    stored = policies.create(alice, draft=EIGHT)
    for _ in range(6):
        policies.replace(alice, stored.pk, draft=EIGHT)
        assert not allows("bob", 9)
    assert len(policies._compiled) <= 3


def test_who_may_write_policies() -> None:
    with pytest.raises(AccessDenied):
        policies.create(cast.caller("bob"), draft=EIGHT)
    with pytest.raises(AccessDenied):
        policies.create(cast.caller("alice"), draft=EIGHT, platform=True)
    shared = policies.create(cast.caller("olga"), draft=EIGHT, platform=True)
    with pytest.raises(AccessDenied):
        policies.replace(cast.caller("alice"), shared.pk, draft=FOUR)
    with pytest.raises(AccessDenied):
        policies.delete(cast.caller("alice"), shared.pk)
    own = policies.create(cast.caller("alice"), draft=EIGHT)
    with pytest.raises(NotFound):
        policies.get(cast.caller("mallory"), own.pk)
    with pytest.raises(NotFound):
        policies.delete(cast.caller("mallory"), own.pk)
    assert Policy.objects.count() == 2


@pytest.mark.rule("C2")
def test_a_stale_version_changes_nothing() -> None:
    alice = cast.caller("alice")
    stored = policies.create(alice, draft=EIGHT)
    policies.replace(alice, stored.pk, draft=FOUR, if_match=frozenset({1}))
    with pytest.raises(PreconditionFailed) as refused:
        policies.replace(alice, stored.pk, draft=EIGHT, if_match=frozenset({1}))
    assert refused.value.details == {"version": 2}
    with pytest.raises(PreconditionFailed):
        policies.delete(alice, stored.pk, if_match=frozenset({1, 3}))
    assert policies.get(alice, stored.pk).text == FOUR.text


def test_a_name_is_taken_once_per_tenant() -> None:
    policies.create(cast.caller("alice"), draft=EIGHT)
    with pytest.raises(policies.PolicyNameTaken) as refused:
        policies.create(cast.caller("alice"), draft=FOUR)
    assert isinstance(refused.value, Conflict)
    policies.create(cast.caller("mallory"), draft=EIGHT)
    policies.create(cast.caller("olga"), draft=EIGHT, platform=True)
    with pytest.raises(policies.PolicyNameTaken):
        policies.create(cast.caller("olga"), draft=EIGHT, platform=True)


@pytest.mark.parametrize(
    "text",
    [
        "permit(principal, action, resource);",
        'permit(principal, action in Action::"compute:nodes:*", resource);',
        """permit(principal, action in [
            Action::"compute:reservations:read", Action::"compute:pools:manage"
        ], resource);""",
    ],
)
def test_a_tenant_cannot_permit_what_is_not_about_reservations(text: str) -> None:
    with pytest.raises(InvalidInput, match="must name actions of compute:reservations"):
        policies.create(cast.caller("alice"), draft=Draft("grab", text))
    policies.create(cast.caller("olga"), draft=Draft("grab", text), platform=True)


def test_a_tenants_permit_cannot_reach_another_tenants_reservation() -> None:
    """A permit widens what members may do at home; foreign ids answer NOT_FOUND before it."""
    text = 'permit(principal, action in Action::"compute:reservations:*", resource);'
    policies.create(cast.caller("alice"), draft=Draft("open", text))
    decision = decisions.decide(
        cast.caller("bob"),
        "compute:reservations:release",
        resource_id="rsv_1",
        attributes=Attributes(owner="usr_alice"),
    )
    assert decision.allowed
    foreign = decisions.decide(
        cast.caller("bob"),
        "compute:reservations:release",
        resource_id="rsv_1",
        attributes=Attributes(owner="usr_mallory", tenant=cast.tenant("globex").pk),
    )
    assert not foreign.allowed


def test_an_invalid_text_is_refused_with_its_line_and_nothing_is_stored() -> None:
    with pytest.raises(InvalidInput) as refused:
        policies.create(cast.caller("alice"), draft=Draft("bad", "\n\nforbid(everything);"))
    assert refused.value.details["errors"][0]["path"] == "text"
    assert refused.value.details["errors"][0]["message"].startswith("line 3: ")
    assert not Policy.objects.exists()


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("context.gpus * 9223372036854775807 > 9", "overflow"),
        ("9223372036854775807 + 1 > context.gpus", "overflow"),
        # Of another member's reservation nothing but the id is told.
        ('resource has owner && resource.owner.role == "admin"', "does not exist"),
    ],
)
@pytest.mark.parametrize("platform", [False, True])
def test_a_text_that_fails_on_ordinary_requests_is_not_stored(
    condition: str, said: str, platform: bool
) -> None:
    text = (
        'forbid (principal, action in Action::"compute:reservations:*", resource)'
        f" when {{ {condition} }};"
    )
    draft = Draft(name="odd", text=text)
    with pytest.raises(InvalidInput) as refused:
        policies.create(cast.caller("olga"), draft=draft, platform=platform)
    (error,) = refused.value.details["errors"]
    assert error["path"] == "text"
    assert said in error["message"]
    assert not Policy.objects.exists()


def test_one_that_fails_on_a_strange_request_is_named_to_those_who_can_change_it() -> None:
    text = "forbid (principal, action, resource) when { context.gpus * 999999999999999999 > 9 };"
    alice = cast.caller("alice")
    saved = policies.create(alice, draft=Draft(name="odd", text=text))
    asked = Attributes(gpus=4_096)
    with pytest.raises(decisions.PolicyFailed) as told:
        decisions.decide(alice, CREATE, resource_id="rsv_1", attributes=asked)
    assert told.value.details == {"policies": ["odd/1"], "policyIds": [saved.pk]}
    assert f"odd ({saved.pk})" in told.value.message
    assert "overflow" in told.value.message
    with pytest.raises(decisions.PolicyFailed) as untold:
        decisions.decide(cast.caller("bob"), CREATE, resource_id="rsv_1", attributes=asked)
    assert untold.value.details == {}
    assert "ask an admin" in untold.value.message
    assert decisions.decide(alice, CREATE, resource_id="rsv_1").allowed


def test_a_dry_run_replaces_and_adds_without_storing() -> None:
    alice = cast.caller("alice")
    stored = policies.create(alice, draft=FOUR)

    def verdict(draft: Draft | None, replaces: str | None) -> bool:
        compiled = policies.compiled_with(alice, draft=draft, replaces=replaces)
        judged = decisions.judge(
            compiled, alice, CREATE, resource_id="dry", attributes=Attributes(gpus=8)
        )
        return judged.allowed

    assert not verdict(None, None)
    assert verdict(EIGHT, stored.pk)
    assert not verdict(EIGHT, None)
    assert Policy.objects.count() == 1


@pytest.mark.rule("A11")
def test_a_tenants_policies_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compiled together, in somebody's request."""
    alice = cast.caller("alice")
    monkeypatch.setattr(policies, "CHARACTERS_PER_TENANT_MAX", len(EIGHT.text) + len(FOUR.text))
    stored = policies.create(alice, draft=Draft("a", EIGHT.text))
    policies.create(alice, draft=Draft("b", FOUR.text))
    policies.replace(alice, stored.pk, draft=Draft("a", EIGHT.text))
    longer = Draft("a", EIGHT.text + " //")
    with pytest.raises(Conflict, match="characters"):
        policies.replace(alice, stored.pk, draft=longer)
    with pytest.raises(Conflict, match="characters"):
        policies.create(alice, draft=Draft("c", FOUR.text))
    policies.create(cast.caller("mallory"), draft=Draft("c", FOUR.text))

    monkeypatch.setattr(policies, "CHARACTERS_PER_TENANT_MAX", 10**6)
    monkeypatch.setattr(policies, "POLICIES_PER_TENANT_MAX", 2)
    with pytest.raises(Conflict, match="2 policies"):
        policies.create(alice, draft=Draft("c", FOUR.text))
    policies.replace(alice, stored.pk, draft=Draft("a", FOUR.text))
