from datetime import timedelta

import pytest

from bettercompute import failpoints
from bettercompute.coordination import holdings, leases, owner, workqueue
from bettercompute.coordination.models import WorkItem
from bettercompute.coordination.runner import At, Done, Runner
from bettercompute.failpoints import Failpoint

pytestmark = pytest.mark.django_db


class Recorder:
    """A reconciler that notes its keys and answers what it is told to."""

    def __init__(self, *outcomes):
        self.keys = []
        self.outcomes = list(outcomes)

    def __call__(self, key, fence):
        self.keys.append(key)
        with fence():
            outcome = self.outcomes.pop(0) if self.outcomes else Done()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def test_a_due_row_is_reconciled_and_gone():
    node = Recorder()
    workqueue.enqueue("node", "node_a")
    runner = Runner({"node": node})
    assert runner.run_once()
    assert not runner.run_once()
    assert node.keys == ["node_a"]
    assert not WorkItem.objects.exists()


def test_a_row_may_ask_for_its_next_look(clock):
    node = Recorder(At(clock.now() + timedelta(hours=2)))
    workqueue.enqueue("node", "node_a")
    runner = Runner({"node": node})
    assert runner.drain() == 1
    clock.advance("2h")  # far beyond every lease: simulated time renews them
    assert runner.drain() == 1
    assert node.keys == ["node_a", "node_a"]


@pytest.mark.rule("C26")
def test_a_failing_row_backs_off_and_others_go_on(clock):
    node = Recorder(ValueError("bad day"))
    workqueue.enqueue("node", "node_a")
    workqueue.enqueue("pool", "pool_a", not_before=clock.now() + timedelta(seconds=0))
    pool = Recorder()
    runner = Runner({"node": node, "pool": pool})
    runner.drain()
    assert pool.keys == ["pool_a"]
    item = WorkItem.objects.get()
    assert (item.key, item.attempts, item.last_error) == ("node_a", 1, "ValueError: bad day")
    clock.advance("1s")
    runner.drain()
    assert not WorkItem.objects.exists()


def test_a_kind_without_a_reconciler_stays_visible():
    workqueue.enqueue("nonsense", "x")
    Runner({}).drain()
    assert "no reconciler for kind 'nonsense'" in WorkItem.objects.get().last_error


@pytest.mark.rule("C26")
def test_a_wake_up_during_the_run_makes_it_run_again():
    workqueue.enqueue("node", "node_a")
    node = Recorder()

    def wake_once():
        failpoints.disarm()
        workqueue.enqueue("node", "node_a")

    failpoints.arm(Failpoint.WORK_RECONCILED, wake_once)
    Runner({"node": node}).drain()
    assert node.keys == ["node_a", "node_a"]


@pytest.mark.rule("C26", "C28")
def test_a_worker_that_dies_after_its_commit_is_followed_by_a_second_run(clock):
    workqueue.enqueue("node", "node_a")
    node = Recorder()

    class Killed(BaseException):
        pass

    def die():
        raise Killed

    failpoints.arm(Failpoint.WORK_RECONCILED, die)
    dying = Runner({"node": node})
    with pytest.raises(Killed):
        dying.run_once()
    failpoints.disarm()
    clock.advance("15s")  # its leases lapse; nobody gave them up
    assert _as_another_process(lambda: Runner({"node": node}).run_once())
    assert node.keys == ["node_a", "node_a"]


def _as_another_process(action):
    before, owner.OWNER = owner.OWNER, "own_another"
    try:
        return action()
    finally:
        owner.OWNER = before


@pytest.mark.rule("C26")
def test_a_worker_that_dies_with_a_batch_claimed_loses_none_of_it(clock):
    shard = workqueue.shard_of("a")
    keys = [key for key in map(str, range(400)) if workqueue.shard_of(key) == shard][:5]
    workqueue.enqueue_many([("node", key, None) for key in keys])
    node = Recorder()

    class Killed(BaseException):
        pass

    def die_at_the_third():
        if len(node.keys) == 2:
            raise Killed

    failpoints.arm(Failpoint.WORK_CLAIMED, die_at_the_third)
    with pytest.raises(Killed):
        Runner({"node": node}).drain()
    failpoints.disarm()
    clock.advance("15s")
    assert _as_another_process(lambda: Runner({"node": node}).drain()) == 3
    assert sorted(node.keys) == sorted(keys)


@pytest.mark.rule("C26", "C30")
def test_the_new_holder_does_not_wait_for_the_claims_of_the_old(clock):
    workqueue.enqueue("node", "node_a")
    workqueue.claim(range(workqueue.SHARDS), limit=1)  # by somebody who then died
    node = Recorder()
    Runner({"node": node}).run_once()
    assert node.keys == ["node_a"]


@pytest.mark.rule("C30")
def test_a_lost_lease_aborts_quietly_and_leaves_the_row(clock, caplog):
    workqueue.enqueue("node", "node_a")
    runner = Runner({"node": lambda key, fence: _lose_then_write(key, fence, runner)})
    runner.run_once()
    item = WorkItem.objects.get()
    assert (item.attempts, item.last_error) == (0, "")
    assert not [r for r in caplog.records if r.levelname == "ERROR"]
    assert runner.lease_of("node_a") is None


def _lose_then_write(key, fence, runner):
    leases.expire_all()
    leases.take(runner.lease_of(key).name, owner="own_rival")
    with fence():
        raise AssertionError("a zombie wrote")


@pytest.mark.rule("C26", "C30")
def test_a_zombie_claims_nothing_that_the_new_holder_would_wait_for(clock, monkeypatch):
    """Claims hide rows for a minute, so they too are made under the fence."""
    workqueue.enqueue("node", "node_a")
    runner = Runner({"node": Recorder()})
    due_shards = workqueue.due_shards

    def slept_over(shards):
        due = due_shards(shards)
        leases.expire_all()
        leases.take_many(map(holdings.shard_name, due), owner="own_rival")
        return due

    monkeypatch.setattr(workqueue, "due_shards", slept_over)
    assert runner.drain() == 0
    monkeypatch.undo()
    leases.expire_all()
    assert [c.key for c in workqueue.claim(range(workqueue.SHARDS), limit=1)] == ["node_a"]


def test_a_process_runs_only_shards_that_it_holds(clock):
    workqueue.enqueue("node", "node_a")
    shard = workqueue.shard_of("node_a")
    leases.take(f"shard:{shard}", owner="own_rival")
    node = Recorder()
    runner = Runner({"node": node})
    assert not runner.run_once()
    clock.advance("15s")
    assert runner.run_once()


@pytest.mark.rule("C27")
def test_after_an_outage_overdue_rows_of_a_shard_run_in_time_order(clock):
    shard = workqueue.shard_of("a")
    keys = [key for key in map(str, range(2_000)) if workqueue.shard_of(key) == shard][:20]
    for minutes, key in enumerate(reversed(keys)):
        workqueue.enqueue("node", key, not_before=clock.now() + timedelta(minutes=minutes))
    clock.advance("3h")
    node = Recorder()
    assert Runner({"node": node}).drain() == 20
    assert node.keys == list(reversed(keys))


@pytest.mark.rule("C27")
def test_a_second_run_changes_nothing_but_costs_nothing_either():
    node = Recorder()
    runner = Runner({"node": node})
    workqueue.enqueue("node", "node_a")
    runner.drain()
    workqueue.enqueue("node", "node_a")
    runner.drain()
    assert node.keys == ["node_a", "node_a"]
    assert runner.drain() == 0


def test_a_row_that_is_always_due_does_not_keep_the_runner_for_ever(clock):
    def again(key, fence):
        return At(clock.now())

    workqueue.enqueue("node", "node_a")
    assert Runner({"node": again}).drain(limit=5) == 5
