"""API tokens: minted, found in one query, revoked."""

import hashlib
from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from bettercompute.errors import NotFound, Unauthenticated
from bettercompute.iam import memberships, tokens
from bettercompute.iam.models import ApiToken
from tests.conftest import SimulatedClock
from tests.support import cast

pytestmark = pytest.mark.django_db


def test_only_the_hash_of_the_secret_is_stored() -> None:
    token, plaintext = cast.token("alice")
    _, identifier, secret = plaintext.split("_")
    assert plaintext.startswith("bct_")
    assert token.pk == f"tok_{identifier}"
    stored = ApiToken.objects.filter(pk=token.pk).values().get()
    assert stored["secret_hash"] == hashlib.sha256(secret.encode()).hexdigest()
    assert not any(secret in str(value) for value in stored.values())


def test_a_token_is_found_with_account_tenant_and_role_in_one_query(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    token, plaintext = cast.token("alice")
    tokens.find(plaintext)  # marks it as used
    with django_assert_num_queries(1):
        found = tokens.find(plaintext)
        assert found.account.username == "alice"
        assert found.identity.token_id == token.pk
        (seat,) = found.identity.seats
        assert (seat.slug, seat.role) == ("acme", "admin")
    assert not found.identity.is_operator


def test_the_account_of_a_token_is_the_one_it_was_made_for() -> None:
    found = tokens.find(cast.token("olga")[1]).account
    there = cast.account("olga")
    for name in ("id", "username", "is_staff", "is_superuser", "is_active", "time_zone", "email"):
        assert getattr(found, name) == getattr(there, name), name


@pytest.mark.parametrize(
    "change", ["wrong secret", "wrong id", "no token", "revoked", "expired", "disabled", "left"]
)
def test_a_token_that_does_not_hold_is_refused(change: str, clock: SimulatedClock) -> None:
    token, plaintext = cast.token("alice")
    tokens.find(plaintext)
    match change:
        case "wrong secret":
            plaintext = plaintext[:-1] + ("a" if plaintext[-1] != "a" else "b")
        case "wrong id":
            plaintext = "bct_" + "0" * 26 + plaintext[30:]
        case "no token":
            plaintext = "bct_short"
        case "revoked":
            tokens.revoke(cast.caller("alice"), token.pk)
        case "expired":
            ApiToken.objects.update(expires_at=clock.now() + timedelta(minutes=1))
            tokens.find(plaintext)
            clock.advance("1m")
        case "disabled":
            account = cast.account("alice")
            account.is_active = False
            account.save()
        case "left":
            memberships.remove(cast.account("alice"), cast.tenant("acme"))
    with pytest.raises(Unauthenticated):
        tokens.find(plaintext)


def test_last_use_is_written_at_most_once_a_minute(
    clock: SimulatedClock, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    token, plaintext = cast.token("bob")
    assert token.last_used_at is None
    with django_assert_num_queries(2):
        tokens.find(plaintext)
    first = ApiToken.objects.get().last_used_at
    assert first == clock.now()
    clock.advance("59s")
    with django_assert_num_queries(1):
        tokens.find(plaintext)
    assert ApiToken.objects.get().last_used_at == first
    clock.advance("1s")
    tokens.find(plaintext)
    assert ApiToken.objects.get().last_used_at == clock.now()


def test_members_revoke_their_own_tokens_and_admins_anyones() -> None:
    alices, _ = cast.token("alice")
    bobs, _ = cast.token("bob")
    with pytest.raises(NotFound):
        tokens.revoke(cast.caller("bob"), alices.pk)
    with pytest.raises(NotFound):
        tokens.revoke(cast.caller("mallory"), bobs.pk)
    assert ApiToken.objects.filter(revoked_at=None).count() == 2
    assert tokens.revoke(cast.caller("alice"), bobs.pk).revoked_at is not None
    assert tokens.revoke(cast.caller("alice"), alices.pk).revoked_at is not None


def test_revoking_again_keeps_the_first_moment(clock: SimulatedClock) -> None:
    token, _ = cast.token("bob")
    first = tokens.revoke(cast.caller("bob"), token.pk).revoked_at
    clock.advance("1h")
    assert tokens.revoke(cast.caller("bob"), token.pk).revoked_at == first


def test_an_operators_token_needs_no_membership() -> None:
    _, plaintext = cast.token("olga", "acme")
    found = tokens.find(plaintext)
    assert found.identity.is_operator
    assert [seat.slug for seat in found.identity.seats] == ["acme"]
