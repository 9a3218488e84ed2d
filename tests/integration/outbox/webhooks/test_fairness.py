"""Slots are shared out so that one endpoint, or a thousand, delays no other (A6)."""

import threading
import time

import pytest

from outbox.models import Lane, WebhookDelivery, WebhookEndpoint
from outbox.webhooks import courier, deliveries
from tests.support import cast
from tests.support.receivers import Reply, receiver
from tests.support.webhooks import dispatched, endpoint, publish, send

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A6")]


def many(count, *, lane, url="https://hooks.example.com/"):
    """Endpoints of the platform that want everything, made in one statement."""
    olga = cast.account("olga")
    WebhookEndpoint.objects.bulk_create(
        WebhookEndpoint(owner=olga, url=url, secret="x", lane=lane) for _ in range(count)
    )


def claimed(lane, limit):
    return [claim.endpoint_id for claim in deliveries.claim(lane, limit=limit)]


def test_the_first_delivery_of_each_endpoint_goes_before_the_second_of_any(clock):
    many(1, lane=Lane.QUICK)
    for _ in range(5):
        publish()
    dispatched()
    clock.advance("1s")
    many(2, lane=Lane.QUICK)
    publish()
    dispatched()
    claims = claimed(Lane.QUICK, 4)
    assert len(set(claims)) == 3
    assert max(claims.count(each) for each in claims) == 2


@pytest.mark.parametrize("lane", Lane)
def test_no_more_of_an_endpoint_are_out_at_once_than_its_lane_lets(clock, lane):
    many(1, lane=lane)
    for _ in range(40):
        publish()
    dispatched()
    assert len(claimed(lane, 100)) == deliveries.EACH_MAX[lane]
    assert claimed(lane, 100) == []
    clock.advance("60s")  # who claimed them is dead
    assert len(claimed(lane, 100)) == deliveries.EACH_MAX[lane]


def test_lanes_take_no_slots_from_each_other(clock):
    many(40, lane=Lane.FAILING)
    many(1, lane=Lane.SLOW)
    many(1, lane=Lane.QUICK)
    publish()
    dispatched()
    assert len(claimed(Lane.FAILING, 10)) == 10
    assert len(claimed(Lane.SLOW, 10)) == 1
    assert len(claimed(Lane.QUICK, 10)) == 1


def test_a_thousand_endpoints_that_hang_delay_the_one_that_answers_by_nothing(clock, monkeypatch):
    """They are out, all that there are slots for, and stay out until it has what it is sent."""
    monkeypatch.setattr(courier, "STOP_SECONDS_MAX", 60)  # however busy this machine is
    done = threading.Event()

    def hang(message):
        done.wait(120)
        return Reply()

    with receiver() as hanging, receiver() as well:
        endpoint(well)
        publish()
        dispatched()
        send()  # it is known to answer
        hanging.reply = hang
        many(1_000, lane=Lane.NEW, url=hanging.url)
        WebhookEndpoint.objects.filter(lane=Lane.NEW).update(
            secret=WebhookEndpoint.objects.get(url=well.url).secret
        )
        publish()
        publish()
        dispatched()
        assert WebhookDelivery.objects.filter(status="pending").count() == 2_002
        running = courier.Courier()
        running.start()
        try:
            until = time.monotonic() + 60
            while len(well.messages) < 3 and time.monotonic() < until:
                time.sleep(0.02)
            assert len(well.messages) == 3
            assert not done.is_set()
            assert len(hanging.messages) <= courier.SLOTS[Lane.NEW] * 5
        finally:
            done.set()
            running.stop()
    left = WebhookDelivery.objects.filter(status="pending")
    assert not left.filter(claimed_until__isnull=False).exists()  # finished or broken off


def test_an_endpoint_is_in_the_lane_of_what_calling_it_last_took(clock, monkeypatch):
    with receiver() as door:
        made, _ = endpoint(door)
        lanes = [made.lane]
        for status, slow_ms in ((200, 2_000), (500, -1), (200, -1), (200, 2_000)):
            monkeypatch.setattr(deliveries, "SLOW_MS", slow_ms)
            door.answers(status)
            publish()
            dispatched()
            clock.advance("1h")
            send()
            made.refresh_from_db()
            lanes.append(made.lane)
    assert lanes == ["new", "quick", "failing", "slow", "quick"]


def test_an_attempt_gives_its_slot_back_after_three_seconds_but_for_a_slow_endpoints(monkeypatch):
    claims = {
        lane: deliveries.Claim("", 1, 1, "", "", False, None, "", "", lane, 0, "", ())
        for lane in Lane
    }
    flights = {lane: courier.Flight(claim, None) for lane, claim in claims.items()}
    assert all(flight.holds_a_slot(lane) for lane, flight in flights.items())
    assert not flights[Lane.QUICK].holds_a_slot(Lane.NEW)
    for flight in flights.values():
        flight.since -= courier.OVERTIME_SECONDS
    held = {lane for lane, flight in flights.items() if flight.holds_a_slot(lane)}
    assert held == {Lane.SLOW, Lane.FAILING}
