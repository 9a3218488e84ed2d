"""From an identity to a caller of one tenant."""

import pytest
from pytest_django import DjangoAssertNumQueries

from bettercompute.errors import AccessDenied, InvalidInput, NotFound
from bettercompute.iam import access, callers, memberships, tokens
from bettercompute.iam.models import Role
from tests.support import cast

pytestmark = pytest.mark.django_db


def test_a_member_is_a_caller_of_the_own_tenant_in_the_own_role() -> None:
    caller = cast.caller("bob")
    assert caller.tenant_id == cast.tenant("acme").pk
    assert caller.account_id == cast.account("bob").pk
    assert (caller.role, caller.is_operator, caller.token_id) == ("member", False, None)


@pytest.mark.rule("R38")
def test_a_foreign_tenant_and_one_that_does_not_exist_answer_alike() -> None:
    cast.tenant("globex")
    messages = set()
    for tenant_id in (cast.tenant("globex").pk, "ten_none"):
        with pytest.raises(NotFound) as refused:
            callers.for_tenant(cast.account("alice"), tenant_id)
        messages.add(refused.value.message.replace(tenant_id, "…"))
    assert len(messages) == 1


@pytest.mark.rule("A2")
def test_a_token_never_leaves_its_tenant() -> None:
    memberships.add(cast.account("alice"), cast.tenant("globex"), role=Role.ADMIN)
    token, plaintext = cast.token("alice", "acme")
    for who in (token, tokens.find(plaintext).identity):
        assert callers.for_tenant(who, cast.tenant("acme").pk).token_id == token.pk
        with pytest.raises(NotFound):
            callers.for_tenant(who, cast.tenant("globex").pk)


def test_an_operator_acts_for_any_tenant_when_signed_in_but_not_by_token() -> None:
    acme = cast.tenant("acme").pk
    caller = callers.for_tenant(cast.account("olga"), acme)
    assert (caller.tenant_id, caller.role, caller.is_operator) == (acme, "admin", True)
    token, _ = cast.token("olga")
    with pytest.raises(NotFound):
        callers.for_tenant(token, acme)
    with pytest.raises(NotFound):
        callers.for_tenant(cast.account("olga"), "ten_none")


def test_no_tenant_need_be_named_by_who_has_only_one() -> None:
    identity = callers.of_account(cast.account("alice"))
    assert callers.for_only_tenant(identity).tenant_id == cast.tenant("acme").pk
    memberships.add(cast.account("alice"), cast.tenant("globex"))
    with pytest.raises(InvalidInput, match="tenantId: required, since you belong to several"):
        callers.for_only_tenant(callers.of_account(cast.account("alice")))
    memberships.remove(cast.account("mallory"), cast.tenant("globex"))
    with pytest.raises(InvalidInput, match="belong to no tenant"):
        callers.for_only_tenant(callers.of_account(cast.account("mallory")))


def test_the_seats_of_an_account_are_one_query(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    alice = cast.account("alice")
    memberships.add(alice, cast.tenant("globex"))
    with django_assert_num_queries(1):
        identity = callers.of_account(alice)
        assert [seat.slug for seat in identity.seats] == ["acme", "globex"]
        callers.for_tenant(identity, identity.seats[1].tenant_id)


def test_a_disabled_operator_is_none() -> None:
    olga = cast.account("olga")
    assert callers.is_operator(olga)
    olga.is_active = False
    assert not callers.is_operator(olga)


def test_rules_of_right() -> None:
    access.require_operator(cast.caller("olga"))
    access.require_admin(cast.caller("alice"))
    access.require_admin(cast.caller("olga", "acme"))
    for refused in (access.require_operator, access.require_admin):
        with pytest.raises(AccessDenied):
            refused(cast.caller("bob"))
    with pytest.raises(AccessDenied):
        access.require_operator(cast.caller("alice"))


def test_a_role_is_replaced_when_given_again() -> None:
    bob, acme = cast.account("bob"), cast.tenant("acme")
    memberships.add(bob, acme, role=Role.ADMIN)
    assert cast.caller("bob").role == "admin"
    assert memberships.remove(bob, acme)
    assert not memberships.remove(bob, acme)
