"""From an event to a receiver's door, and what is written down of it (A6)."""

import json
from datetime import timedelta

import pytest
from django.db import transaction
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from bettercompute import failpoints
from bettercompute.coordination.fencing import LeaseLost
from bettercompute.failpoints import Failpoint
from outbox import dispatch
from outbox.models import Cursor, Event, Lane, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from outbox.webhooks import deliveries, endpoints, queries, schedule, upkeep, vault
from outbox.webhooks.endpoints import Draft
from tests.support import cast, make
from tests.support.receivers import Reply, receiver
from tests.support.webhooks import (
    at_the_receivers_time,
    dispatched,
    endpoint,
    publish,
    send,
    send_until_quiet,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A6")]


@pytest.fixture
def door():
    with receiver() as running:
        yield running


def test_an_event_reaches_the_receiver_signed_as_standard_webhooks_has_it(clock, door):
    at_the_receivers_time(clock)
    made, secret = endpoint(door)
    publish()
    dispatched()
    assert send() == 1
    (message,) = door.messages
    verified = Webhook(secret).verify(message.body, dict(message.headers))
    assert verified == message.event
    assert verified["type"] == "pool.created"
    assert verified["tenantId"] == cast.tenant().pk
    assert set(verified) == {"id", "type", "tenantId", "subject", "data", "time"}
    assert message.id == verified["id"]
    row = WebhookDelivery.objects.get()
    assert (row.status, row.attempts, row.body.encode()) == ("delivered", 1, message.body)
    attempt = WebhookAttempt.objects.get()
    assert (attempt.response_status, attempt.response_head, attempt.error) == (200, "thanks", "")
    assert "webhook-signature" not in {name.lower() for name in attempt.request_headers}
    made.refresh_from_db()
    assert (made.lane, made.failing_since) == ("quick", None)
    assert send() == 0


@pytest.mark.rule("C22")
@pytest.mark.parametrize("dies", ["before the commit", "not at all"])
def test_deliveries_are_written_with_the_cursor_or_not_at_all(clock, door, dies):
    endpoint(door)
    publish()

    def die():
        raise KeyboardInterrupt

    if dies == "before the commit":
        failpoints.arm(Failpoint.EVENTS_ENQUEUED, die)
        with pytest.raises(KeyboardInterrupt):
            dispatched()
        assert (WebhookDelivery.objects.count(), Cursor.objects.get().seq) == (0, 0)
        failpoints.disarm()
    dispatched()
    assert WebhookDelivery.objects.count() == 1
    assert Cursor.objects.get().seq == Event.objects.get().seq
    dispatched()
    assert WebhookDelivery.objects.count() == 1


@pytest.mark.rule("C22")
def test_a_dispatcher_whose_cursor_has_moved_writes_nothing(clock, door):
    endpoint(door)
    publish()

    class Overtaken:
        def batch_max(self):
            Cursor.objects.update(seq=10**6, txid=10**6)  # somebody else went on meanwhile
            return 100

        def enqueue(self, batch):
            raise AssertionError("its cursor has moved")

    with pytest.raises(LeaseLost):
        dispatch.run_once("webhooks", Overtaken(), fence=transaction.atomic)


def test_the_same_event_enqueued_twice_is_one_delivery(clock, door):
    endpoint(door)
    publish()
    dispatched()
    Cursor.objects.update(seq=0, txid=0)  # as after the cursor was forgotten
    dispatched()
    assert send() == 1
    assert len(door.messages) == 1


FILTERS = {
    "all": (Draft("u"), 4),
    "exact": (Draft("u", event_types=["pool.created"]), 2),
    "kind": (Draft("u", event_types=["quota.*"]), 1),
    "two": (Draft("u", event_types=["quota.*", "pool.changed"]), 2),
    "subject": (Draft("u", subject="pool/pool_b"), 1),
    "subjects": (Draft("u", subject="pool/*"), 3),
    "both": (Draft("u", event_types=["pool.changed"], subject="pool/pool_b"), 0),
}


def test_an_endpoint_is_told_what_its_filters_let_through_and_of_its_tenant_alone(clock, door):
    for name, (draft, _) in FILTERS.items():
        changes = {"event_types": draft.event_types, "subject": draft.subject}
        endpoint(door, description=name, **changes)
    endpoint(door, "olga", platform=True, description="platform")
    endpoint(door, "mallory", description="theirs")
    publish(kind="pool.created", subject="pool/pool_a")
    publish(kind="pool.created", subject="pool/pool_b")
    publish(kind="pool.changed", subject="pool/pool_a")
    publish(kind="quota.changed", subject="quota/acme")
    publish("globex")
    dispatched()
    told = {row.description: row.deliveries.count() for row in WebhookEndpoint.objects.all()}
    wanted = {name: count for name, (_, count) in FILTERS.items()}
    assert told == wanted | {"platform": 5, "theirs": 1}


def test_events_from_before_an_endpoint_was_made_or_while_it_was_disabled_are_not_sent(clock, door):
    publish()
    clock.advance("1s")
    made, _ = endpoint(door)
    alice = cast.caller("alice")
    endpoints.update(alice, made.pk, {}, enabled=False)
    publish()
    clock.advance("1s")
    endpoints.update(alice, made.pk, {}, enabled=True)
    publish(kind="quota.changed")
    dispatched()
    types = list(WebhookDelivery.objects.order_by("id").values_list("event_type", flat=True))
    assert types == ["webhook.enabled", "quota.changed"]


def test_what_waits_for_a_disabled_endpoint_is_tried_at_no_time(clock, door):
    made, _ = endpoint(door)
    alice = cast.caller("alice")
    publish()
    dispatched()
    (due,) = queries.deliveries_page(alice, made.pk, queries.Filters(), limit=10).items
    endpoints.update(alice, made.pk, {}, enabled=False)
    (waits,) = queries.deliveries_page(alice, made.pk, queries.Filters(), limit=10).items
    assert due.next_at is not None
    assert (waits.state, waits.next_at) == ("pending", None)
    assert queries.delivery(endpoints.get(alice, made.pk), waits.id).next_at is None
    endpoints.update(alice, made.pk, {}, enabled=True)
    again = queries.delivery(endpoints.get(alice, made.pk), waits.id)
    assert again.next_at == due.next_at


@pytest.mark.case(30)
@pytest.mark.rule("C28")
def test_every_retry_has_the_same_id_and_the_same_bytes_and_comes_when_the_schedule_says(
    clock, door
):
    endpoint(door)
    door.answers(503, b"not now")
    publish()
    dispatched()
    for delay in schedule.DELAYS:
        send()
        before = len(door.messages)
        clock.advance(delay * 0.99)
        assert (send(), len(door.messages)) == (0, before)
        clock.advance(delay * 0.12)
    send()
    assert len(door.messages) == schedule.TRIES_MAX
    assert len({(message.id, message.body) for message in door.messages}) == 1
    row = WebhookDelivery.objects.get()
    assert (row.status, row.attempts) == ("failed", schedule.TRIES_MAX)
    last = WebhookAttempt.objects.latest("number")
    assert (last.response_status, last.response_head, last.retry_at) == (503, "not now", None)
    clock.advance("30d")
    assert send() == 0


def test_an_endpoint_that_takes_nothing_for_three_days_is_disabled_with_an_event(clock, door):
    made, _ = endpoint(door)
    door.answers(500)
    publish()
    dispatched()
    for delay in schedule.DELAYS:
        send()
        made.refresh_from_db()
        assert made.state == "enabled"
        clock.advance(delay * 1.1)
    send()
    made.refresh_from_db()
    assert (made.state, made.disabled_reason) == ("disabled", "failing")
    event = Event.objects.get(type="webhook.disabled")
    assert event.data == {"webhookId": made.pk, "reason": "failing"}
    assert (event.tenant_id, event.subject) == (cast.tenant().pk, f"webhook/{made.pk}")


def test_a_receiver_that_is_gone_is_disabled_at_once(clock, door):
    made, _ = endpoint(door)
    door.answers(410)
    publish()
    dispatched()
    send()
    made.refresh_from_db()
    assert (made.state, made.disabled_reason) == ("disabled", "gone")
    assert WebhookDelivery.objects.get(event_type="pool.created").status == "failed"


def test_what_the_receiver_asks_for_is_waited_for_by_all_that_is_due_to_it(clock, door):
    made, _ = endpoint(door)
    door.answers(429, Retry_After="3600")
    publish()
    publish()
    dispatched()
    send()
    assert len(door.messages) == 1
    clock.advance("59m")
    assert send() == 0
    door.answers(200)
    clock.advance("2m")
    send_until_quiet()
    assert len(set(door.ids)) == 2
    made.refresh_from_db()
    assert (made.failures, made.failing_since, made.paused_until) == (0, None, None)


def test_while_it_fails_one_call_at_a_time_asks_whether_it_is_well(clock, door):
    endpoint(door)
    for _ in range(20):
        publish()
    dispatched()
    door.answers(500)
    assert send() == 1
    for _ in range(5):
        clock.advance("61s")
        assert send() == 1
    door.answers(200)
    clock.advance("61s")
    send_until_quiet()
    clock.advance("30m")
    send_until_quiet()
    assert set(WebhookDelivery.objects.values_list("status", flat=True)) == {"delivered"}


def test_a_receiver_that_answers_what_it_was_sent_gives_no_signature_away(clock, door):
    door.reply = lambda message: Reply(
        500, json.dumps(dict(message.headers)).replace("/", "\\/").encode()
    )
    endpoint(door)
    publish()
    dispatched()
    send()
    (message,) = door.messages
    signature = message.headers["webhook-signature"].partition(",")[2]
    head = WebhookAttempt.objects.get().response_head
    assert message.id in head
    assert signature not in head.replace("\\/", "/")


def test_each_former_secret_signs_for_a_day_whatever_comes_after_it(clock, door):
    at_the_receivers_time(clock)
    present = clock.now()
    clock.set(present - timedelta(hours=23))
    made, first = endpoint(door)
    _, second = endpoints.rotate_secret(cast.caller("alice"), made.pk)
    clock.set(present - timedelta(hours=1))
    _, third = endpoints.rotate_secret(cast.caller("alice"), made.pk)
    clock.set(present)
    publish()
    dispatched()
    send()
    (message,) = door.messages
    assert len(message.headers["webhook-signature"].split()) == 3
    for secret in (first, second, third):
        Webhook(secret).verify(message.body, dict(message.headers))

    # The first one's day is over, and nobody has tidied up yet.
    WebhookEndpoint.objects.update(former_until=[present + timedelta(hours=23), present])
    publish()
    dispatched()
    send()
    message = door.messages[-1]
    for secret in (second, third):
        Webhook(secret).verify(message.body, dict(message.headers))
    with pytest.raises(WebhookVerificationError):
        Webhook(first).verify(message.body, dict(message.headers))
    upkeep.run(make.fence)
    made.refresh_from_db()
    assert [vault.unseal(each) for each in made.former_secrets] == [second]
    assert made.former_until == [present + timedelta(hours=23)]


def test_connections_are_used_again(clock, door):
    endpoint(door)
    publish()
    dispatched()
    send()
    for _ in range(12):
        publish()
    dispatched()
    before = door.connections
    assert send() == 12
    assert door.connections - before <= deliveries.EACH_MAX[Lane.QUICK]
    assert len(door.messages) == 13


def test_a_reply_that_no_text_can_hold_is_kept_as_far_as_it_can_be(clock, door):
    endpoint(door)
    door.reply = lambda message: Reply(500, b"\x00\xff" + b"x" * 10_000)
    publish()
    dispatched()
    send()
    head = WebhookAttempt.objects.get().response_head
    assert head.startswith("\ufffd\ufffdxxx")
    assert len(head) == 4_096


def test_a_result_that_cannot_be_written_down_does_not_keep_the_others_from_being(
    clock, door, monkeypatch
):
    endpoint(door)
    publish()
    dispatched()
    send()
    publish()
    publish()
    dispatched()
    text = deliveries._text
    door.reply = lambda message: Reply(200, message.id.encode())
    bad = WebhookDelivery.objects.filter(status="pending").order_by("id")[0].event_id
    monkeypatch.setattr(
        deliveries, "_text", lambda raw: "\x00" if raw == bad.encode() else text(raw)
    )
    assert send() == 2
    told = dict(WebhookDelivery.objects.values_list("event_id", "status"))
    assert told.pop(bad) == "pending"
    assert set(told.values()) == {"delivered"}
    monkeypatch.undo()
    clock.advance(timedelta(seconds=deliveries.CLAIM_SECONDS))
    assert send() == 1
    assert not WebhookDelivery.objects.exclude(status="delivered").exists()


def test_a_secret_that_no_key_opens_fails_the_attempt_and_is_told(clock, door, settings):
    made, _ = endpoint(door)
    settings.SECRET_KEY = "another " * 8
    publish()
    dispatched()
    send()
    assert door.messages == []
    assert "secret cannot be read" in WebhookAttempt.objects.get().error
    assert WebhookDelivery.objects.get().status == "pending"
    assert made.secret.split(":")[0] not in WebhookAttempt.objects.get().response_head
