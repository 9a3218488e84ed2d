"""Only what every cursor has passed and is old is removed (C24)."""

from datetime import timedelta
from functools import partial

import pytest
from django.db import transaction

from bettercompute import wiring
from bettercompute.coordination import fencing, leases
from bettercompute.coordination.worker import Worker
from bettercompute.errors import InvalidState
from bettercompute.iam import checks as iam_checks
from bettercompute.iam import projection
from bettercompute.iam.models import AuthzChange
from outbox import authz, dispatch, events, positions, reader, retention
from outbox.models import Cursor, Event
from tests.support import cast, horizon, sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C24")]

OLD = timedelta(days=31)


class Sink:
    """Takes everything, or nothing."""

    def __init__(self, *, stands_still: bool = False) -> None:
        self.stands_still = stands_still

    def deliver(self, batch):
        if self.stands_still:
            raise ConnectionError("the sink is down")


def publish(*names):
    for name in names:
        events.publish(
            "pool.created", tenant_id="ten_a", subject=f"pool/{name}", data={"poolId": name}
        )


def deliver(sink_id, sink=None):
    horizon.let_writers_elsewhere_end()
    dispatch.drain(sink_id, sink or Sink(), fence=transaction.atomic)


def sweep():
    horizon.let_writers_elsewhere_end()
    return retention.sweep(transaction.atomic)


def kept():
    rows = Event.objects.order_by("txid", "seq")
    return "".join(row.data["poolId"] for row in rows)


def test_what_every_sink_has_read_goes_when_it_is_old_enough(clock):
    publish(*"ab")
    deliver("one")
    clock.advance(OLD - timedelta(days=2))
    publish(*"cd")
    deliver("one")
    assert sweep() == 0
    clock.advance("3d")
    assert sweep() == 2
    assert kept() == "cd"


def test_a_sink_that_stands_still_keeps_what_it_has_not_read(clock):
    publish(*"ab")
    deliver("quick")
    deliver("stalled")
    publish(*"cde")
    deliver("quick")
    with pytest.raises(ConnectionError):
        deliver("stalled", Sink(stands_still=True))
    clock.advance(OLD)
    assert sweep() == 2
    assert kept() == "cde"
    deliver("stalled")
    assert sweep() == 2


def test_a_removed_sink_keeps_its_events_until_an_operator_forgets_its_cursor(clock):
    publish(*"abc")
    deliver("alive")
    dispatch.run_once("removed", Sink(), fence=transaction.atomic)
    Cursor.objects.filter(sink="removed").update(txid=0, seq=0)
    clock.advance(OLD)
    assert sweep() == 0
    assert dispatch.forget("removed")
    assert not dispatch.forget("removed")
    assert sweep() == 2
    assert Cursor.objects.get().sink == "alive"


def test_the_cursor_of_a_sink_that_is_delivered_to_is_not_forgotten(clock):
    publish("a")
    deliver("in_use")
    leases.take(f"singleton:{dispatch.lease_name('in_use')}")
    with pytest.raises(InvalidState):
        dispatch.forget("in_use")
    assert Cursor.objects.get().sink == "in_use"
    clock.advance("20s")
    assert dispatch.forget("in_use")


def test_the_newest_event_stays_so_that_a_reader_at_the_end_is_not_reset(clock):
    publish(*"abc")
    horizon.let_writers_elsewhere_end()
    first, _, last = reader.follow(positions.START, limit=9).rows
    clock.advance(OLD)
    assert sweep() == 2
    assert kept() == "c"
    assert reader.end() == last.position
    assert not reader.resume(str(last.position)).reset
    assert reader.resume(str(first.position)).reset  # the others are told


def test_only_the_beginning_goes_so_that_what_is_kept_has_no_holes(clock):
    """An old event behind a younger one waits for it: of two open transactions, say."""
    publish(*"abcd")
    clock.advance(OLD)
    Event.objects.filter(data__poolId="b").update(time=clock.now())
    assert sweep() == 1
    assert kept() == "bcd"


def test_what_is_not_readable_yet_is_not_removed(clock):
    publish(*"ab")
    with sessions.opened("stuck") as (stuck,):
        stuck.begin()
        stuck.run(lambda: publish("c"))
        publish(*"de")
        clock.advance(OLD)
        assert retention.sweep(transaction.atomic) == 1  # b is the newest that can be read
        stuck.rollback()
    assert kept() == "bde"


def test_a_batch_is_a_transaction_of_the_leases_holder(clock, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 2)
    publish(*"abcdefg")
    clock.advance(OLD)
    horizon.let_writers_elsewhere_end()
    lease = leases.take("singleton:retention", owner="own_old")
    begun = []

    def fence():
        if len(begun) == 2:
            clock.advance("15s")
            leases.take("singleton:retention", owner="own_new")
        begun.append(True)
        return fencing.fenced(lease)

    with pytest.raises(fencing.LeaseLost):
        retention.sweep(fence)
    assert kept() == "efg"
    assert retention.sweep(partial(fencing.fenced, leases.current("singleton:retention"))) == 2


def test_the_worker_sweeps(clock):
    publish(*"abc")
    clock.advance(OLD)
    horizon.let_writers_elsewhere_end()
    worker = Worker({}, {"retention": wiring.ticks()["retention"]})
    worker.holdings.refresh()
    worker.tick()
    worker.stop()
    assert kept() == "c"


@pytest.mark.rule("C23")
def test_old_entries_of_the_authorization_feed_go_once_a_later_one_can_be_read(clock):
    tenant = cast.tenant("acme").pk
    for name, gpus in (("a", 1), ("b", 1), ("a", 2), ("a", 3)):
        projection.record(name, "reservation", tenant, {"gpus": gpus})
    clock.advance(OLD)
    projection.record("b", "reservation", tenant, {"gpus": 9})
    with sessions.opened("stuck") as (stuck,):
        stuck.begin()
        stuck.sql("SELECT pg_current_xact_id()")
        projection.record("a", "reservation", tenant, {"gpus": 4})  # nobody can read it yet
        horizon.let_writers_elsewhere_end()
        assert retention.sweep(transaction.atomic) == 3
        stuck.rollback()
    assert AuthzChange.objects.count() == 3
    assert sweep() == 1
    rows = authz.follow(positions.START, limit=9).rows
    assert {row.resource_id: row.state["attributes"] for row in rows} == {
        "a": {"gpus": 4},
        "b": {"gpus": 9},
    }
    assert iam_checks.projection_follows_feed() == []
