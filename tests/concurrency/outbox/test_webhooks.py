"""Several workers send webhooks at once: each delivery by one of them (A6)."""

from collections import Counter
from datetime import timedelta

import pytest
from django.db import transaction
from standardwebhooks import Webhook

from outbox.models import Lane, WebhookDelivery, WebhookEndpoint
from outbox.webhooks import deliveries, endpoints, rules, upkeep
from outbox.webhooks.endpoints import ENDPOINTS
from tests.support import cast, races, sessions
from tests.support.races import Operation
from tests.support.receivers import receiver
from tests.support.webhooks import at_the_receivers_time, dispatched, endpoint, publish, send

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A6")]

URL = "https://hooks.example.com/"


def backlog(*, endpoints_count, events):
    for _ in range(endpoints_count):
        endpoint(URL)
    WebhookEndpoint.objects.update(lane=Lane.QUICK)
    for _ in range(events):
        publish()
    dispatched()


def test_what_one_worker_is_claiming_another_passes_by(clock):
    backlog(endpoints_count=2, events=3)
    with sessions.opened("one", "other") as (one, other):
        one.begin()
        mine = one.run(lambda: deliveries.claim(Lane.QUICK, limit=1))
        theirs = other.run(lambda: deliveries.claim(Lane.QUICK, limit=100))
        assert {claim.endpoint_id for claim in theirs}.isdisjoint(
            claim.endpoint_id for claim in mine
        )
        assert len(theirs) == 3
        one.commit()


def test_a_crowd_of_workers_claims_each_delivery_once(clock):
    backlog(endpoints_count=8, events=16)
    claimed = []

    def work():
        claimed.extend(deliveries.claim(Lane.QUICK, limit=16))

    outcomes = races.crowd([Operation("claim", work)] * 24, connections=6)
    assert not [each for each in outcomes if each.unexpected], races.tally(outcomes)
    counts = Counter(claim.id for claim in claimed)
    assert set(counts.values()) == {1}
    of_each = Counter(claim.endpoint_id for claim in claimed)
    assert len(of_each) == 8
    assert WebhookDelivery.objects.filter(attempts__gt=1).count() == 0


def test_what_a_slow_worker_is_just_writing_down_as_delivered_is_not_claimed_again(clock):
    backlog(endpoints_count=1, events=1)
    # The endpoint is known to be well: nothing is said of it, and only the delivery is locked.
    WebhookEndpoint.objects.update(last_success_at=clock.now() + timedelta(hours=1))
    (late,) = deliveries.claim(Lane.QUICK, limit=1)
    clock.advance(timedelta(seconds=deliveries.CLAIM_SECONDS))
    taken = deliveries.Attempt(None, "", latency_ms=5, status=200)
    with sessions.opened("slow", "other") as (slow, other):
        slow.begin()
        slow.run(lambda: deliveries.record([deliveries.result(late, taken)]))
        step = other.start(lambda: deliveries.claim(Lane.QUICK, limit=1))
        step.must_block()
        slow.commit()
        assert step.result() == []
    row = WebhookDelivery.objects.get()
    assert (row.status, row.attempts) == ("delivered", 1)


def test_an_endpoint_that_is_deleted_while_it_is_called_takes_the_result_along(clock):
    backlog(endpoints_count=1, events=1)
    (claim,) = deliveries.claim(Lane.QUICK, limit=1)
    endpoints.delete(cast.caller("alice"), claim.endpoint_id)
    with transaction.atomic():
        assert deliveries.DELIVERIES.run("expire_deleted", limit=10) == 1
    taken = deliveries.Attempt(None, "", latency_ms=5, status=200)
    deliveries.record([deliveries.result(claim, taken)])  # no row left to write to
    assert not WebhookDelivery.objects.exists()


def test_a_wait_of_one_endpoint_is_no_wait_of_another(clock):
    """A paused endpoint is passed by, not waited for."""
    backlog(endpoints_count=2, events=1)
    first, second = WebhookEndpoint.objects.order_by("id")
    WebhookEndpoint.objects.filter(pk=first.pk).update(
        paused_until=clock.now() + timedelta(seconds=30)
    )
    assert [each.endpoint_id for each in deliveries.claim(Lane.QUICK, limit=10)] == [second.pk]
    clock.advance("30s")
    assert [each.endpoint_id for each in deliveries.claim(Lane.QUICK, limit=10)] == [first.pk]


def test_upkeep_and_who_writes_down_what_came_of_a_batch_do_not_wait_for_each_other(clock):
    """A batch locks by id. Of the later one the owner left, of the earlier one a secret is over."""
    first, second = sorted(endpoint(URL)[0].pk for _ in range(2))
    WebhookEndpoint.objects.filter(pk=first).update(
        former_secrets=["over"], former_until=[clock.now() - timedelta(hours=1)]
    )
    WebhookEndpoint.objects.filter(pk=second).update(owner_id=cast.account("mallory").pk)
    with sessions.opened("batch", "upkeep") as (batch, other):
        batch.begin()
        batch.run(lambda: ENDPOINTS.one("lock", id=first))
        step = other.start(lambda: upkeep.run(transaction.atomic))
        step.must_block()
        batch.run(lambda: ENDPOINTS.one("lock", id=second))
        batch.commit()
        step.result()
    kept = WebhookEndpoint.objects.in_bulk()
    assert (kept[first].former_secrets, kept[second].state) == ([], "disabled")


def test_who_rotates_at_the_same_time_as_others_has_a_secret_that_signs(clock):
    """Each has an answer: receivers that were given any of the secrets verify what comes."""
    at_the_receivers_time(clock)
    with receiver() as door:
        found, first = endpoint(door)
        alice = cast.caller("alice")

        def rotate():
            return endpoints.rotate_secret(alice, found.pk)[1]

        outcomes = races.crowd([Operation("rotate", rotate)] * 4, connections=4)
        assert not [each for each in outcomes if each.unexpected], races.tally(outcomes)
        refused = [each.error for each in outcomes if each.error is not None]
        assert [error.code for error in refused] == ["INVALID_STATE"]
        publish()
        dispatched()
        send()
        (message,) = door.messages
    secrets = {first, *(each.answer for each in outcomes if each.error is None)}
    assert len(secrets) == 4
    for secret in secrets:
        Webhook(secret).verify(message.body, dict(message.headers))


def test_two_who_change_different_things_of_a_webhook_at_once_both_have_their_way(
    clock, monkeypatch
):
    """The second reads it, the first saves, the second saves: what it did not name stays."""
    alice, (found, _) = cast.caller("alice"), endpoint(URL)
    accepted = rules.accepted

    def meanwhile(*args, **kwargs):
        monkeypatch.setattr(rules, "accepted", accepted)
        endpoints.update(alice, found.pk, {"url": f"{URL}new", "event_types": ["node.*"]})
        return accepted(*args, **kwargs)

    monkeypatch.setattr(rules, "accepted", meanwhile)
    changed = endpoints.update(alice, found.pk, {"description": "to the chat"})
    assert (changed.url, changed.description) == (f"{URL}new", "to the chat")
    assert (changed.event_types, changed.version) == (["node.*"], 3)
