"""Which process holds what (C29-C34)."""

import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import OperationalError

from bettercompute import clock as clocks
from bettercompute.coordination import fencing, heartbeats, leases, owner, workqueue
from bettercompute.coordination.holdings import Holdings
from bettercompute.coordination.models import Heartbeat

pytestmark = pytest.mark.django_db

ALL = list(range(workqueue.SHARDS))


class Member:
    """A process, by its owner id."""

    def __init__(self, name, monkeypatch, singletons=()):
        self.name, self._monkeypatch = name, monkeypatch
        self.holdings = Holdings(singletons)

    @contextmanager
    def as_itself(self):
        with self._monkeypatch.context() as patch:
            patch.setattr(owner, "OWNER", self.name)
            yield

    @contextmanager
    def fenced(self, held):
        with self.as_itself(), self.holdings.fenced(held):
            yield

    def refresh(self):
        with self.as_itself():
            self.holdings.refresh()
        return self.holdings.shards()

    def stop(self):
        with self.as_itself():
            self.holdings.give_up_all()


@pytest.fixture
def member(monkeypatch):
    return lambda name, singletons=(): Member(name, monkeypatch, singletons)


@pytest.mark.rule("C34")
def test_a_process_alone_takes_everything_at_once_with_nothing_configured(member):
    alone = member("own_a", ["resync"])
    assert alone.refresh() == sorted(ALL)
    assert alone.holdings.lease("singleton:resync").owner == "own_a"


@pytest.mark.rule("C34")
def test_a_second_process_gets_its_share_and_a_third(member, clock):
    members = [member(f"own_{n}") for n in range(3)]
    members[0].refresh()
    for joined in (2, 3):
        for _ in range(3):
            clock.advance("2s")
            shares = [m.refresh() for m in members[:joined]]
        assert sorted(n for share in shares for n in share) == sorted(ALL)
        assert max(map(len, shares)) - min(map(len, shares)) <= joined
        assert max(map(len, shares)) == -(-workqueue.SHARDS // joined)


@pytest.mark.rule("C31", "C35")
def test_what_a_dead_process_held_is_taken_within_the_lease_time(member, clock):
    dead, living = member("own_dead"), member("own_living")
    dead.refresh()
    for _ in range(3):
        clock.advance("1s")
        dead.refresh(), living.refresh()
    assert len(living.refresh()) == 8
    for _ in range(16):
        clock.advance("1s")
        living.refresh()
    assert living.refresh() == sorted(ALL)


@pytest.mark.rule("C31")
def test_leases_are_renewed_every_five_seconds(member, clock, django_assert_num_queries):
    alone = member("own_a")
    alone.refresh()
    for _ in range(10):
        clock.advance("5s")
        alone.refresh()
    assert len(leases.holders()) == workqueue.SHARDS
    assert {holder.epoch for holder in leases.holders()} == {1}


@pytest.mark.rule("C29")
def test_a_clean_stop_lets_the_next_one_take_over_in_the_same_instant(member):
    first, second = member("own_a"), member("own_b")
    first.refresh()
    first.stop()
    assert second.refresh() == sorted(ALL)
    assert first.refresh() == []  # a message that was under way takes nothing any more


@pytest.mark.rule("C33")
def test_an_unreachable_database_is_no_evidence_that_somebody_else_leads(
    member, clock, monkeypatch
):
    alone = member("own_a")
    alone.refresh()
    clock.advance("6s")
    with monkeypatch.context() as patch:

        def refuse(*_, **__):
            raise OperationalError("the connection is lost")

        patch.setattr(leases, "take_many", refuse)
        assert alone.refresh() == sorted(ALL)  # still ours, in memory
    clock.advance("1h")
    assert alone.refresh() == sorted(ALL)
    assert {holder.epoch for holder in leases.holders()} == {1}  # in the same term


@pytest.mark.rule("C33")
def test_what_was_taken_though_the_answer_was_lost_is_held_at_the_next_look(member, monkeypatch):
    alone = member("own_a", ["resync"])
    take_many = leases.take_many

    def lose_the_answer(names, **more):
        take_many(names, **more)
        raise OperationalError("the connection is lost, after the commit")

    with monkeypatch.context() as patch:
        patch.setattr(leases, "take_many", lose_the_answer)
        assert alone.refresh() == []
    assert len(leases.holders()) == workqueue.SHARDS + 1  # ours, and we do not know
    assert alone.refresh() == sorted(ALL)  # no time has passed
    assert alone.holdings.lease("singleton:resync").epoch == 1


@pytest.mark.rule("C33", "C30")
def test_after_an_outage_in_which_somebody_took_over_the_claim_is_dropped(member, clock):
    sleeper = member("own_a")
    sleeper.refresh()
    clock.advance("1h")
    leases.take("shard:3", owner="own_b")
    assert sleeper.refresh() == [n for n in sorted(ALL) if n != 3]


def test_a_lease_in_use_is_nobody_elses_to_use_or_to_give_up(member, clock):
    busy, other = member("own_a"), member("own_b")
    busy.refresh()
    with busy.holdings.using("shard:9") as held:
        assert held is not None
        with busy.holdings.using("shard:9") as second:
            assert second is None  # C30: one fenced transaction at a time
        clock.advance("6s")
        for _ in range(3):
            other.refresh(), busy.refresh()
            clock.advance("1s")
        assert busy.holdings.lease("shard:9") == held.lease
    assert 9 in busy.refresh() or 9 in other.refresh()


@pytest.mark.rule("C30", "C31")
def test_a_lease_is_kept_alive_however_long_its_user_takes(member, clock):
    slow, other = member("own_a", ["delivery"]), member("own_b", ["delivery"])
    slow.refresh()
    with slow.holdings.using("singleton:delivery") as held:
        for _ in range(12):  # a sink that takes a minute, outside of any transaction
            clock.advance("5s")
            slow.refresh(), other.refresh()
        with slow.fenced(held):
            pass
    assert leases.current("singleton:delivery") == held.lease
    assert other.holdings.lease("singleton:delivery") is None


@pytest.mark.rule("C30")
def test_a_user_without_a_pulse_renews_before_each_of_its_transactions(member, clock):
    alone = member("own_a", ["resync"])
    alone.refresh()
    with alone.holdings.using("singleton:resync") as held:
        for _ in range(5):
            clock.advance("10s")
            with alone.fenced(held):
                assert leases.current("singleton:resync") == held.lease


@pytest.mark.rule("C30")
@pytest.mark.parametrize("slept", ["15s", "4s"], ids=["seen-by-the-renewal", "seen-by-the-fence"])
def test_a_user_whose_lease_was_taken_over_writes_nothing_and_forgets_it(member, clock, slept):
    sleeper = member("own_a", ["resync"])
    sleeper.refresh()
    with sleeper.holdings.using("singleton:resync") as held:
        clock.advance(slept)
        leases.expire_all()
        leases.take("singleton:resync", owner="own_b")
        with pytest.raises(fencing.LeaseLost), sleeper.fenced(held):
            raise AssertionError("a zombie wrote")
    assert sleeper.holdings.lease("singleton:resync") is None


@pytest.mark.rule("C29")
def test_a_term_that_ended_and_is_free_again_is_held_in_the_new_one(member, clock):
    """Somebody took over and gave up while we slept: the renewal begins a term, which is ours."""
    sleeper = member("own_a")
    sleeper.refresh()
    old = sleeper.holdings.lease("shard:3")
    clock.advance("20s")
    leases.give_up(leases.take("shard:3", owner="own_b"))
    assert sleeper.refresh() == sorted(ALL)
    new = sleeper.holdings.lease("shard:3")
    assert new == leases.current("shard:3")
    assert new.epoch == old.epoch + 2


def test_the_heartbeat_is_written_every_five_seconds(member, clock):
    alone = member("own_a")
    alone.refresh()
    assert heartbeats.alive("worker") == ["own_a"]
    row = Heartbeat.objects.get(process="own_a")
    for seconds, beaten_at in ((4, row.beaten_at), (1, row.beaten_at + timedelta(seconds=5))):
        clock.advance(f"{seconds}s")
        alone.refresh()
        row.refresh_from_db()
        assert row.beaten_at == beaten_at


def test_a_lease_that_is_just_being_tidied_is_waited_for_not_skipped(member):
    alone = member("own_a")
    alone.refresh()
    held = alone.holdings._held["shard:9"]
    assert held.busy.acquire(blocking=False)  # as tidying does
    assert 9 in alone.holdings.shards()
    threading.Timer(0.05, held.busy.release).start()
    with alone.holdings.using("shard:9") as used:
        assert used is held


@pytest.mark.rule("C7")
def test_every_renewal_samples_the_clock_again(member, clock, monkeypatch):
    sampled = []
    synchronise = clocks.synchronise
    monkeypatch.setattr(clocks, "synchronise", lambda: sampled.append(synchronise()))
    one = member("one")
    one.refresh()
    clock.advance("2s")
    one.refresh()
    assert sampled == [], "nothing was due"
    for number in (1, 2):
        clock.advance("6s")
        one.refresh()
        assert len(sampled) == number
