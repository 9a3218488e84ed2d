"""What is old goes, who has left is told nothing more, and keys are replaced (A6)."""

import pytest
from standardwebhooks import Webhook

from bettercompute.iam.models import Membership
from outbox.models import Event, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from outbox.webhooks import checks, endpoints, queries, upkeep, vault
from tests.support import cast, make
from tests.support.receivers import receiver
from tests.support.webhooks import at_the_receivers_time, dispatched, endpoint, publish, send

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A6")]


@pytest.fixture
def door():
    with receiver() as running:
        yield running


def run():
    return upkeep.run(make.fence)


def test_deliveries_and_their_attempts_go_when_they_are_old_but_not_what_waits(clock, door):
    made, _ = endpoint(door)
    publish()
    dispatched()
    send()
    waiting = WebhookDelivery.objects.get()
    clock.advance("29d")
    publish()
    dispatched()
    assert run() == 0
    clock.advance("1d")
    assert run() == 1
    assert list(WebhookAttempt.objects.all()) == []
    (left,) = WebhookDelivery.objects.all()
    assert left.pk != waiting.pk
    clock.advance("30d")
    assert run() == 0  # it waits for an endpoint that may come back
    endpoints.update(cast.caller("alice"), made.pk, {}, enabled=False)
    assert run() == 1


def test_a_deleted_endpoint_goes_with_all_it_was_sent(clock, door):
    made, _ = endpoint(door)
    publish()
    publish()
    dispatched()
    send()
    endpoints.delete(cast.caller("alice"), made.pk)
    assert send() == 0
    run()
    assert not WebhookEndpoint.objects.exists()
    assert not WebhookDelivery.objects.exists()
    assert not WebhookAttempt.objects.exists()


@pytest.mark.rule("R38")
def test_who_has_left_the_tenant_is_told_nothing_more_until_somebody_takes_over(clock, door):
    made, _ = endpoint(door, "bob")
    publish()
    dispatched()
    Membership.objects.filter(account=cast.account("bob")).delete()
    publish()
    dispatched()
    assert WebhookDelivery.objects.count() == 1  # before anybody has noticed
    assert send() == 0  # nor what waits
    run()
    made.refresh_from_db()
    assert (made.state, made.disabled_reason) == ("disabled", "owner-left")
    assert "owner has left" in queries.answered(made).notice
    assert Event.objects.get(type="webhook.disabled").data["reason"] == "owner-left"
    clock.advance("1s")
    alice = cast.caller("alice")
    taken = endpoints.update(alice, made.pk, {}, enabled=True)
    assert (taken.owner_id, taken.state) == (alice.account_id, "enabled")
    publish()
    dispatched()
    send()
    types = [message.event["type"] for message in door.messages]
    assert types.count("pool.created") == 2  # what waited, and the new one


def test_a_new_key_seals_what_there_is_and_the_old_one_can_go(clock, door, settings):
    settings.WEBHOOK_KEYS = ("the old key " * 4,)
    made, secret = endpoint(door)
    _, new = endpoints.rotate_secret(cast.caller("alice"), made.pk)
    settings.WEBHOOK_KEYS = ("the new key " * 4, *settings.WEBHOOK_KEYS)
    assert run() == 1
    assert run() == 0
    settings.WEBHOOK_KEYS = settings.WEBHOOK_KEYS[:1]
    made.refresh_from_db()
    assert vault.unseal(made.secret) == new
    assert [vault.unseal(each) for each in made.former_secrets] == [secret]


def test_a_secret_that_no_key_opens_keeps_no_other_from_signing(clock, door, settings):
    at_the_receivers_time(clock)
    settings.WEBHOOK_KEYS = ("the old key " * 4,)
    made, _ = endpoint(door)
    settings.WEBHOOK_KEYS = ("another key " * 4,)  # the old one is lost
    made.refresh_from_db()
    assert "rotate the secret" in queries.answered(made).notice
    _, second = endpoints.rotate_secret(cast.caller("alice"), made.pk)
    _, third = endpoints.rotate_secret(cast.caller("alice"), made.pk)
    settings.WEBHOOK_KEYS = ("the new key " * 4, *settings.WEBHOOK_KEYS)
    assert run() == 1
    assert run() == 0
    settings.WEBHOOK_KEYS = settings.WEBHOOK_KEYS[:1]
    publish()
    dispatched()
    send()
    (message,) = door.messages
    for secret in (second, third):
        Webhook(secret).verify(message.body, dict(message.headers))
    (found,) = checks.secrets()  # the first one signs no more, though its day is not over
    assert made.pk in found.message
    clock.advance("1d")
    assert checks.secrets() == []
