"""Sinks get every event, at least once, and go on where the last dispatcher stopped (C22)."""

from functools import partial

import pytest
from django.db import connection, transaction

from bettercompute.coordination import fencing, leases
from bettercompute.coordination.worker import Job, Worker
from outbox import checks, cluster, dispatch, events, reader
from outbox.models import Cursor
from tests.support import horizon, sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C22")]


class Collector:
    """A sink that keeps what it is told, and may refuse."""

    def __init__(self, refuse=False):
        self.batches = []
        self.refuse = refuse

    def deliver(self, batch):
        assert not connection.in_atomic_block  # C20: nothing external inside a transaction
        if self.refuse:
            raise ConnectionError("the sink is down")
        self.batches.append([event.data["poolId"] for event in batch])

    @property
    def names(self):
        return [name for batch in self.batches for name in batch]


def publish(*names):
    for name in names:
        events.publish(
            "pool.created", tenant_id="ten_a", subject=f"pool/{name}", data={"poolId": name}
        )
    if not connection.in_atomic_block:
        horizon.let_writers_elsewhere_end()


def run_once(sink, fence=transaction.atomic):
    return dispatch.run_once("test", sink, fence=fence)


def test_the_cursor_moves_behind_each_batch(clock, monkeypatch):
    monkeypatch.setattr(dispatch, "BATCH_MAX", 2)
    sink = Collector()
    publish(*"abcde")
    assert dispatch.drain("test", sink, fence=transaction.atomic) == 5
    assert sink.batches == [["a", "b"], ["c", "d"], ["e"]]
    assert run_once(sink) == 0
    cursor = Cursor.objects.get(sink="test")
    assert (cursor.txid, cursor.seq) == reader.end()


@pytest.mark.rule("C28")
def test_a_new_holder_resumes_where_the_last_one_stopped(clock):
    first, second = Collector(), Collector()
    publish("a", "b")
    run_once(first)
    publish("c")
    run_once(second)
    assert (first.names, second.names) == (["a", "b"], ["c"])


def test_a_sink_that_refuses_gets_the_same_batch_again(clock):
    publish("a")
    with pytest.raises(ConnectionError):
        run_once(Collector(refuse=True))
    sink = Collector()
    run_once(sink)
    assert sink.names == ["a"]


def test_one_sink_that_is_down_delays_no_other(clock):
    publish("a")
    with pytest.raises(ConnectionError):
        dispatch.run_once("down", Collector(refuse=True), fence=transaction.atomic)
    sink = Collector()
    run_once(sink)
    assert sink.names == ["a"]


@pytest.mark.rule("C30")
def test_a_zombie_dispatcher_delivers_twice_at_worst_and_never_moves_the_cursor(clock):
    name = f"singleton:{dispatch.lease_name('test')}"
    lease = leases.take(name, owner="own_old")
    publish("a")

    class Overtaken(Collector):
        def deliver(self, batch):
            super().deliver(batch)
            clock.advance("15s")
            leases.take(name, owner="own_new")  # it took too long: somebody else took over

    with pytest.raises(fencing.LeaseLost):
        run_once(Overtaken(), fence=partial(fencing.fenced, lease))
    assert Cursor.objects.get(sink="test").seq == 0
    sink = Collector()
    run_once(sink)
    assert sink.names == ["a"]


class SlowSink(Collector):
    """Each batch takes a while by the one clock."""

    def __init__(self, clock, takes):
        super().__init__()
        self.clock, self.takes = clock, takes

    def deliver(self, batch):
        super().deliver(batch)
        self.clock.advance(self.takes)


@pytest.mark.parametrize("takes", ["6s", "20s"])
def test_a_sink_slower_than_the_lease_keeps_it_and_gets_each_batch_once(clock, monkeypatch, takes):
    """Six batches outlast the lease's 15 seconds; with 20 s, every one of them does."""
    monkeypatch.setattr(dispatch, "BATCH_MAX", 1)
    publish(*"abcdef")
    sink = SlowSink(clock, takes)
    name = dispatch.lease_name("test")
    worker = Worker({}, {name: Job(1, lambda fence: dispatch.drain("test", sink, fence=fence))})
    worker.holdings.refresh()
    worker.tick()
    assert sink.names == [*"abcdef"]
    assert leases.current(f"singleton:{name}").epoch == 1
    worker.stop()


def test_a_slow_job_that_lost_its_lease_stops_at_its_next_transaction(clock, monkeypatch):
    monkeypatch.setattr(dispatch, "BATCH_MAX", 1)
    publish(*"abc")
    name = dispatch.lease_name("test")

    class Overtaken(SlowSink):
        def deliver(self, batch):
            super().deliver(batch)
            assert leases.take(f"singleton:{name}", owner="own_new")

    sink = Overtaken(clock, "20s")
    worker = Worker({}, {name: Job(1, lambda fence: dispatch.drain("test", sink, fence=fence))})
    worker.holdings.refresh()
    worker.tick()
    assert sink.names == ["a"]
    assert Cursor.objects.get(sink="test").seq == 0
    assert worker.holdings.lease(f"singleton:{name}") is None
    worker.stop()


@pytest.mark.rule("C21")
def test_dispatch_stops_on_the_rows_of_another_cluster_until_they_are_rebased(clock):
    sink = Collector()
    publish("a", "b")
    run_once(sink)
    publish("c")
    _pretend_a_restore()
    with pytest.raises(cluster.ForeignCluster):
        run_once(sink)
    assert checks.same_cluster()[0].check == "outbox.cluster"

    assert cluster.rebase()
    publish("d")  # with a transaction id far below the old cluster's
    dispatch.drain("test", sink, fence=transaction.atomic)
    assert sink.names == ["a", "b", "c", "d"]
    assert checks.same_cluster() == []
    assert not cluster.rebase()


@pytest.mark.rule("C21")
def test_negative_control_without_a_rebase_new_events_are_skipped(clock):
    sink = Collector()
    publish("a")
    run_once(sink)
    _pretend_a_restore()
    cluster.CLUSTER.run("adopt")  # as if nobody had noticed
    publish("b")
    run_once(sink)
    assert sink.names == ["a"]


@pytest.mark.rule("C21")
def test_rebasing_keeps_the_order_of_transactions_not_of_sequences(clock):
    with sessions.opened("older", "younger") as (older, younger):
        older.begin()
        older.sql("SELECT pg_current_xact_id()")
        younger.run(lambda: publish("second"))
        older.run(lambda: publish("first"))
        older.commit()
    _pretend_a_restore()
    cluster.rebase()
    assert [row.data["poolId"] for row in reader.read(reader.START, limit=9)] == ["first", "second"]


def _pretend_a_restore():
    """Rows and cursors as a cluster with far higher transaction ids would have left them."""
    with connection.cursor() as cursor:
        for table in ("outbox", "outbox_cursors"):
            cursor.execute(
                f"UPDATE {table} SET txid = (txid::text::bigint + 1000000000)::text::xid8"
            )
    cluster.is_ours()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE outbox_cluster SET system_identifier = '1'")


def test_the_self_check_tells_of_a_sink_that_falls_behind(clock):
    sink = Collector()
    run_once(sink)
    publish("a")
    clock.advance("2m")
    (finding,) = checks.lag()
    assert finding.check == "outbox.lag"
    run_once(sink)
    assert checks.lag() == []
