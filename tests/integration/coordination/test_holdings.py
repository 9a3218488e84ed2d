"""Which process holds what (C29-C34)."""

import threading

import pytest
from django.db import OperationalError

from bettercompute.coordination import heartbeats, leases, owner, workqueue
from bettercompute.coordination.holdings import Holdings

pytestmark = pytest.mark.django_db

ALL = list(range(workqueue.SHARDS))


class Member:
    """A process, by its owner id."""

    def __init__(self, name, monkeypatch, singletons=()):
        self.name, self._monkeypatch = name, monkeypatch
        self.holdings = Holdings(singletons)

    def refresh(self):
        with self._monkeypatch.context() as patch:
            patch.setattr(owner, "OWNER", self.name)
            self.holdings.refresh()
        return self.holdings.shards()

    def stop(self):
        with self._monkeypatch.context() as patch:
            patch.setattr(owner, "OWNER", self.name)
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


@pytest.mark.rule("C33", "C30")
def test_after_an_outage_in_which_somebody_took_over_the_claim_is_dropped(member, clock):
    sleeper = member("own_a")
    sleeper.refresh()
    clock.advance("1h")
    leases.take("shard:3", owner="own_b")
    assert sleeper.refresh() == [n for n in sorted(ALL) if n != 3]


def test_a_lease_in_use_is_neither_renewed_nor_given_up_by_others(member, clock):
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


def test_the_heartbeat_is_written_every_five_seconds(member, clock):
    alone = member("own_a")
    alone.refresh()
    assert heartbeats.alive("worker") == ["own_a"]
    since = heartbeats.latest("worker")
    clock.advance("4s")
    alone.refresh()
    assert heartbeats.latest("worker") == since
    clock.advance("1s")
    alone.refresh()
    assert heartbeats.latest("worker") > since


def test_a_lease_that_is_just_being_renewed_is_waited_for_not_skipped(member):
    alone = member("own_a")
    alone.refresh()
    held = alone.holdings._held["shard:9"]
    assert held.busy.acquire(blocking=False)  # as a renewal does
    assert 9 in alone.holdings.shards()
    threading.Timer(0.05, held.busy.release).start()
    with alone.holdings.using("shard:9") as used:
        assert used is held
