"""The fence, step by step on two connections (C30)."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bettercompute.coordination import fencing, leases
from tests.support import sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C30")]

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
    with fencing.fenced(lease), connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("5s",)
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("5s",)
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("0",)


def test_the_fence_is_the_first_statement(clock):
    lease = take("own_old")
    with CaptureQueriesContext(connection) as queries, fencing.fenced(lease):
        pass
    statements = [q["sql"] for q in queries.captured_queries if q["sql"] not in {"BEGIN", "COMMIT"}]
    assert len(statements) == 1  # the timeouts cost no round trip of their own
    assert "FOR SHARE" in statements[0]


@pytest.mark.rule("C29")
@pytest.mark.parametrize("kind", ["never held", "expired"])
def test_of_racing_processes_exactly_one_wins(clock, kind):
    if kind == "expired":
        take("own_before")
        clock.advance("15s")
    racers = [lambda n=n: leases.take(NAME, owner=f"own_{n}") for n in range(6)]
    won = [lease for lease in sessions.race(*racers) if lease is not None]
    assert len(won) == 1
    assert leases.current(NAME) == won[0]


@pytest.mark.rule("C29")
def test_processes_that_take_several_leases_at_once_do_not_deadlock(clock):
    names = [f"shard:{n}" for n in range(16)]
    racers = [
        lambda n=n: leases.take_many(names if n % 2 else reversed(names), owner=f"own_{n}")
        for n in range(6)
    ]
    taken = [lease for part in sessions.race(*racers) for lease in part]
    assert sorted(lease.name for lease in taken) == sorted(names)


def test_renewal_waits_for_a_fenced_transaction_so_one_runs_at_a_time(clock):
    """Why each held lease has a lock in its process: see Holdings."""
    lease = take("own_old")
    with sessions.opened("writer", "renewal") as (writer, renewal):
        writer.enter(fencing.fenced(lease))
        step = renewal.start(lambda: leases.renew(lease))
        step.must_block()
        writer.commit()
        assert step.result() == lease
