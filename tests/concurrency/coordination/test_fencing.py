"""The fence, step by step on two connections, by each way to PostgreSQL (C30)."""

import pytest
from django.db import Error, connection
from django.test.utils import CaptureQueriesContext

from bettercompute.coordination import fencing, leases, workqueue
from bettercompute.coordination.models import WorkItem
from tests.support import sessions

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.rule("C30"),
    pytest.mark.usefixtures("way"),
]

NAME = "shard:1"
PLAIN_CHECK = (
    "SELECT EXISTS (SELECT 1 FROM leases WHERE name = %s AND owner = %s AND epoch = %s"
    " AND expires_at > compute_now())"
)


def take(owner):
    return leases.take(NAME, owner=owner)


def test_a_takeover_waits_for_the_fenced_transaction_of_the_old_holder(clock):
    lease = take("own_old")
    with sessions.opened("holder", "rival") as (holder, rival):
        holder.enter(fencing.fenced(lease))
        clock.advance("15s")  # the lease lapses while the holder writes
        takeover = rival.start(lambda: take("own_new"))
        takeover.must_block()
        holder.commit()
        assert takeover.result().epoch == lease.epoch + 1


def test_a_zombie_that_comes_after_the_takeover_does_nothing(clock):
    lease = take("own_old")
    clock.advance("15s")
    take("own_new")
    with pytest.raises(fencing.LeaseLost), fencing.fenced(lease):
        raise AssertionError("it wrote")


def test_a_zombie_that_waits_for_a_takeover_under_way_does_nothing(clock):
    lease = take("own_old")
    still_valid = clock.now()
    clock.advance("15s")
    with sessions.opened("rival", "zombie") as (rival, zombie):
        rival.begin()
        rival.run(lambda: take("own_new"))
        # The zombie began its transaction a moment earlier, when its term was in force, and the
        # takeover is not committed yet: one that looked without locking would see the old term.
        clock.set(still_valid)
        attempt = zombie.start(lambda: _write_fenced(lease))
        attempt.must_block()
        rival.commit()
        with pytest.raises(fencing.LeaseLost):
            attempt.result()


def _write_fenced(lease):
    with fencing.fenced(lease):
        raise AssertionError("a zombie wrote")


def test_negative_control_a_plain_exists_is_no_fence(clock):
    """The same interleaving with EXISTS: both terms write at once. This must go wrong."""
    lease = take("own_old")
    with sessions.opened("zombie", "rival") as (zombie, rival):
        zombie.begin()
        assert zombie.sql(PLAIN_CHECK, lease.name, lease.owner, lease.epoch) == [(True,)]
        clock.advance("15s")
        takeover = rival.run(lambda: take("own_new"))  # nothing holds it up
        assert takeover.epoch == lease.epoch + 1
        zombie.sql("UPDATE leases SET note = 'a zombie was here' WHERE name = %s", NAME)
        zombie.commit()  # and it commits, in the new holder's term
    with connection.cursor() as cursor:
        cursor.execute("SELECT note FROM leases WHERE name = %s", [NAME])
        assert cursor.fetchone() == ("a zombie was here",)


def test_timeouts_bound_a_fenced_transaction_and_only_that(clock):
    lease = take("own_old")
    before = timeouts()
    with fencing.fenced(lease):
        assert timeouts() == ["5s", "5s"]
    assert timeouts() == before


def timeouts():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('statement_timeout'),"
            " current_setting('idle_in_transaction_session_timeout')"
        )
        return list(cursor.fetchone())


def test_a_holder_that_vanished_in_its_transaction_delays_its_successor_boundedly(
    clock, monkeypatch
):
    """A host without power says nothing more; its session would hold the row for ever."""
    monkeypatch.setattr(fencing, "TRANSACTION_MS_MAX", 1_000)
    lease = take("own_vanished")
    with sessions.opened("vanished", "successor") as (vanished, successor):
        vanished.enter(fencing.fenced(lease))
        vanished.run(lambda: workqueue.enqueue("node", "node_a"))
        clock.advance("15s")
        takeover = successor.start(lambda: take("own_new"))
        takeover.must_block()
        assert takeover.result().epoch == lease.epoch + 1
        with pytest.raises(Error):  # were it to come back, it finds its transaction gone
            vanished.commit()
    assert not WorkItem.objects.exists()


def test_the_fence_is_the_first_statement(clock):
    lease = take("own_old")
    with CaptureQueriesContext(connection) as queries, fencing.fenced(lease):
        pass
    statements = [q["sql"] for q in queries.captured_queries if q["sql"] not in {"BEGIN", "COMMIT"}]
    assert len(statements) == 1  # the timeouts cost no round trip of their own
    assert "FOR SHARE" in statements[0]


def test_renewal_waits_for_a_fenced_transaction_so_one_runs_at_a_time(clock):
    """Why each held lease has a lock in its process: see Holdings."""
    lease = take("own_old")
    with sessions.opened("writer", "renewal") as (writer, renewal):
        writer.enter(fencing.fenced(lease))
        step = renewal.start(lambda: take("own_old"))
        step.must_block()
        writer.commit()
        assert step.result() == lease
