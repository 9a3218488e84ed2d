"""The contract of leadership: the same cases directly and through a pooler (C29-C34)."""

import pytest
from django.db import Error

from bettercompute import clock as clock_module
from bettercompute.coordination import fencing, heartbeats, leases, owner, reconnecting, workqueue
from bettercompute.coordination.holdings import Holdings
from bettercompute.coordination.worker import Job, Worker
from tests.support import sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("way")]

NAME = "singleton:placing"
SHARDS = list(range(workqueue.SHARDS))


def take(by):
    return leases.take(NAME, owner=by)


@pytest.mark.rule("C29")
def test_the_first_taker_wins(clock):
    lease = take("own_a")
    assert (lease.name, lease.owner, lease.epoch) == (NAME, "own_a", 1)
    assert leases.current(NAME) == lease


@pytest.mark.rule("C29")
def test_a_live_lease_is_not_taken(clock):
    lease = take("own_a")
    clock.advance("14999ms")
    assert take("own_b") is None
    assert leases.current(NAME) == lease


@pytest.mark.rule("C29", "C31")
def test_renewing_keeps_the_lease_and_its_term(clock):
    lease = take("own_a")
    since = leases.holders()[0].acquired_at
    for _ in range(4):
        clock.advance("14s")
        assert take("own_a") == lease
    assert take("own_b") is None
    assert leases.holders()[0].acquired_at == since


@pytest.mark.rule("C29", "C31")
def test_an_expired_lease_is_taken_in_a_new_term(clock):
    old = take("own_a")
    clock.advance("15s")
    new = take("own_b")
    assert (new.owner, new.epoch) == ("own_b", old.epoch + 1)
    assert leases.holders()[0].acquired_at == clock.now()
    assert take("own_a") is None
    assert leases.current(NAME) == new


@pytest.mark.rule("C32")
def test_a_restarted_process_does_not_match_its_own_stale_lease(clock, monkeypatch):
    before = leases.take(NAME)  # as this process
    monkeypatch.setattr(owner, "OWNER", owner.OWNER)  # put back in the end
    owner._be_somebody_else()  # on the same host, with the same process id
    assert leases.take(NAME) is None
    clock.advance("15s")
    after = leases.take(NAME)
    assert (after.owner, after.epoch) == (owner.OWNER, before.epoch + 1)
    with pytest.raises(fencing.LeaseLost), fencing.fenced(before):
        raise AssertionError("the earlier self wrote")


@pytest.mark.rule("C29")
@pytest.mark.parametrize("kind", ["never held", "expired", "given up"])
def test_of_racing_processes_exactly_one_wins(clock, kind):
    match kind:
        case "expired":
            take("own_before")
            clock.advance("15s")
        case "given up":
            leases.give_up(take("own_before"))
    racers = [lambda n=n: take(f"own_{n}") for n in range(6)]
    won = [lease for lease in sessions.race(*racers) if lease is not None]
    assert len(won) == 1
    assert leases.current(NAME) == won[0]


@pytest.mark.rule("C29")
def test_processes_that_take_several_leases_at_once_share_them_without_a_deadlock(clock):
    names = [f"shard:{n}" for n in SHARDS]
    racers = [
        lambda n=n: leases.take_many(names if n % 2 else reversed(names), owner=f"own_{n}")
        for n in range(6)
    ]
    taken = [lease for part in sessions.race(*racers) for lease in part]
    assert sorted(lease.name for lease in taken) == sorted(names)


@pytest.mark.rule("C29")
def test_giving_up_is_at_once_and_ends_the_term(clock):
    lease = take("own_a")
    assert leases.give_up(lease)
    assert leases.current(NAME) is None
    assert take("own_b").epoch == lease.epoch + 1
    assert not leases.give_up(lease)  # somebody else's is not ours to give up
    assert take("own_c") is None


@pytest.mark.rule("C33")
def test_an_unreachable_store_keeps_the_claim(clock, way):
    with way.severable() as link:
        process = Holdings(["placing"])
        process.refresh()
        held = process.lease(NAME)
        link.cut()
        for _ in range(3):
            process.refresh()
        assert process.lease(NAME) == held
        assert process.shards() == SHARDS
        with pytest.raises(Error), fencing.fenced(held):
            raise AssertionError("it wrote to a store that cannot be reached")

        link.restore()
        process.refresh()
        clock.advance("1h")  # nobody came meanwhile: the same term goes on
        process.refresh()
        with fencing.fenced(process.lease(NAME)):
            pass
        assert process.lease(NAME) == held


@pytest.mark.rule("C33", "C30")
def test_a_claim_kept_through_an_outage_yields_to_whoever_took_over(clock, way):
    with way.severable() as link:
        process = Holdings(["placing"])
        process.refresh()
        held = process.lease(NAME)
        link.cut()
        process.refresh()
        assert process.lease(NAME) == held
        link.restore()
        reconnecting.drop_if_broken()
        clock.advance("15s")
        successor = take("own_b")
        with pytest.raises(fencing.LeaseLost), fencing.fenced(held):  # the fence decides
            raise AssertionError("a zombie wrote")
        process.refresh()
        assert process.lease(NAME) is None
        assert leases.current(NAME) == successor


@pytest.mark.rule("C34")
def test_unset_means_leader(clock):
    """Nothing is configured, nothing is elected: a process alone takes everything and acts."""
    acted = []
    process = Worker({}, {"placing": Job(1, lambda fence: acted.append(clock_module.now()))})
    process.tick()
    assert process.holdings.shards() == SHARDS
    assert process.holdings.lease(NAME).owner == owner.OWNER
    assert len(acted) == 1
    assert heartbeats.alive("worker") == [owner.OWNER]
    process.holdings.give_up_all()
    assert leases.holders() == []
