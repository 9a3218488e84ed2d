"""Secrets at rest: only our keys open them, and a key can be replaced (A6)."""

import pytest

from outbox.webhooks import signing, vault

pytestmark = pytest.mark.rule("A6")

OLD, NEW = "an old key " * 4, "a new key " * 4


def test_what_is_stored_tells_nothing_of_the_secret(settings):
    settings.WEBHOOK_KEYS = (OLD,)
    secret = signing.fresh()
    one, two = vault.seal(secret), vault.seal(secret)
    assert one != two
    assert secret.removeprefix("whsec_") not in one + two
    assert vault.unseal(one) == vault.unseal(two) == secret


def test_a_new_key_seals_and_the_old_one_still_opens(settings):
    settings.WEBHOOK_KEYS = (OLD,)
    sealed = vault.seal("whsec_a")
    settings.WEBHOOK_KEYS = (NEW, OLD)
    assert vault.unseal(sealed) == "whsec_a"
    assert vault.seal("whsec_a").startswith(vault.current())
    assert not sealed.startswith(vault.current())
    settings.WEBHOOK_KEYS = (NEW,)
    with pytest.raises(vault.Unreadable, match="not configured"):
        vault.unseal(sealed)


def test_the_first_key_of_its_own_leaves_what_was_sealed_without_one_readable(settings):
    settings.WEBHOOK_KEYS = ()
    sealed = vault.seal("whsec_a")
    settings.WEBHOOK_KEYS = (NEW,)
    assert vault.unseal(sealed) == "whsec_a"


@pytest.mark.parametrize("spoil", [lambda s: s[:-4] + "AAAA", lambda s: s[:20], lambda s: ""])
def test_a_damaged_one_is_told_from_a_secret(settings, spoil):
    settings.WEBHOOK_KEYS = (OLD,)
    with pytest.raises(vault.Unreadable):
        vault.unseal(spoil(vault.seal("whsec_a")))
