"""A worker that dies or stops in the middle of sending, and an address that changes then (A6)."""

import threading
import time
from datetime import timedelta

import pytest

from bettercompute import failpoints
from bettercompute.failpoints import Failpoint
from outbox.models import Lane, WebhookAttempt, WebhookDelivery
from outbox.webhooks import courier, deliveries, endpoints
from tests.support import cast
from tests.support.receivers import Reply, receiver
from tests.support.webhooks import dispatched, endpoint, publish, send

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A6")]


@pytest.fixture
def door():
    with receiver() as running:
        yield running


@pytest.mark.rule("C28")
def test_a_worker_that_died_after_sending_has_it_sent_again_with_the_same_id(clock, door):
    endpoint(door)
    publish()
    dispatched()

    def die():
        raise KeyboardInterrupt

    failpoints.arm(Failpoint.WEBHOOK_SENT, die)
    with pytest.raises(KeyboardInterrupt):
        send()
    failpoints.disarm()
    assert send() == 0  # it may be on its way still
    clock.advance(timedelta(seconds=deliveries.CLAIM_SECONDS))
    assert send() == 1
    first, second = door.messages
    assert (first.id, first.body) == (second.id, second.body)
    row = WebhookDelivery.objects.get()
    assert (row.status, row.attempts) == ("delivered", 2)
    lost, told = WebhookAttempt.objects.order_by("number")
    assert (lost.number, lost.response_status, lost.error) == (1, None, deliveries._LOST)
    assert (told.number, told.response_status, told.error) == (2, 200, "")
    assert lost.retry_at - lost.started_at == timedelta(seconds=deliveries.CLAIM_SECONDS)


def test_what_is_under_way_when_a_worker_stops_is_told_and_sent_again_at_once(clock, door):
    endpoint(door)
    publish()
    dispatched()
    (claim,) = deliveries.claim(Lane.NEW, limit=10)
    deliveries.break_off([(claim, 3.25)])
    assert send() == 1
    broken_off, told = WebhookAttempt.objects.order_by("number")
    assert (broken_off.error, broken_off.latency_ms) == (deliveries._BROKEN_OFF, 3_250)
    assert (told.number, told.response_status) == (2, 200)
    deliveries.break_off([(claim, 60.0)])  # too late: another has sent it since
    assert WebhookAttempt.objects.count() == 2


def test_a_worker_that_stops_breaks_off_what_is_under_way(clock, monkeypatch):
    """The receiver has it, and answers when nobody waits any more."""
    monkeypatch.setattr(courier, "GRACE_SECONDS", 0.0)
    held = threading.Event()

    def answer(message):
        held.wait(20)
        return Reply()

    with receiver() as door:
        door.reply = answer
        endpoint(door)
        publish()
        dispatched()
        worker = courier.Courier()
        worker._take_up(everything=True)
        try:
            while not door.messages:
                time.sleep(0.01)
            worker._finish()
            worker._close()
            row = WebhookDelivery.objects.get()
            assert (row.status, row.attempts, row.claimed_until) == ("pending", 1, None)
            assert WebhookAttempt.objects.get().error == deliveries._BROKEN_OFF
        finally:
            held.set()


@pytest.mark.parametrize("answered", [410, 503])
def test_what_an_old_address_answers_says_nothing_of_the_new_one(clock, door, answered):
    made, _ = endpoint("http://127.0.0.1:9999/")
    publish()
    dispatched()
    (under_way,) = deliveries.claim(Lane.NEW, limit=10)
    endpoints.update(cast.caller("alice"), made.pk, {"url": door.url})
    refused = deliveries.Attempt(
        deliveries.Failure.STATUS,
        "No.",
        latency_ms=14_000,
        status=answered,
        retry_after=timedelta(hours=20),
    )
    deliveries.record([deliveries.result(under_way, refused)])
    made.refresh_from_db()
    assert (made.state, made.lane, made.failures) == ("enabled", "new", 0)
    assert (made.failing_since, made.paused_until) == (None, None)
    row = WebhookDelivery.objects.get()
    assert (row.status, row.attempts, row.attempts_before) == ("pending", 1, 1)
    assert WebhookAttempt.objects.get().retry_at == row.next_at == clock.now()
    assert send() == 1
    assert WebhookDelivery.objects.get().status == "delivered"


def test_what_a_worker_given_up_for_dead_found_out_changes_nothing(clock, door):
    endpoint(door)
    publish()
    dispatched()
    (zombie,) = deliveries.claim(Lane.NEW, limit=10)
    clock.advance(timedelta(seconds=deliveries.CLAIM_SECONDS))
    send()
    late = deliveries.Attempt(deliveries.Failure.TIMED_OUT, "Timed out.", latency_ms=70_000)
    deliveries.record([deliveries.result(zombie, late)])
    row = WebhookDelivery.objects.get()
    assert (row.status, row.attempts, row.claimed_until) == ("delivered", 2, None)
    errors = dict(WebhookAttempt.objects.values_list("number", "error"))
    assert errors == {1: "Timed out.", 2: ""}
    assert not WebhookAttempt.objects.exclude(retry_at=None).exists()
