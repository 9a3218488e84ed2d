"""The work queue between several connections, by each way to PostgreSQL (C25, C26)."""

import pytest

from bettercompute.coordination import workqueue
from bettercompute.coordination.models import WorkItem
from tests.support import sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("way")]

ALL = range(workqueue.SHARDS)


@pytest.mark.rule("C26")
def test_claiming_skips_rows_that_another_worker_is_claiming(clock):
    workqueue.enqueue_many([("node", f"node_{n}", None) for n in range(4)])
    with sessions.opened("first", "second") as (first, second):
        first.begin()
        mine = first.run(lambda: workqueue.claim(ALL, limit=2))
        theirs = second.run(lambda: workqueue.claim(ALL, limit=10))  # does not wait
        first.commit()
    assert len(mine) == len(theirs) == 2
    assert not {c.key for c in mine} & {c.key for c in theirs}


@pytest.mark.rule("C26")
def test_racing_workers_claim_each_row_once(clock):
    workqueue.enqueue_many([("node", f"node_{n}", None) for n in range(60)])
    claimed = sessions.race(*[lambda: workqueue.claim(ALL, limit=15)] * 5)
    keys = [claim.key for claims in claimed for claim in claims]
    assert len(keys) == len(set(keys))


@pytest.mark.rule("C25")
def test_a_wake_up_in_a_transaction_under_way_holds_the_finish_and_survives(clock):
    workqueue.enqueue("node", "node_a")
    with sessions.opened("waker", "worker") as (waker, worker):
        (claim,) = worker.run(lambda: workqueue.claim(ALL, limit=1))
        waker.begin()
        waker.run(lambda: workqueue.enqueue("node", "node_a"))
        finish = worker.start(lambda: workqueue.finish(claim))
        finish.must_block()
        waker.commit()
        assert finish.result() is False
    assert WorkItem.objects.get().gen == 2
    assert len(workqueue.claim(ALL, limit=1)) == 1


@pytest.mark.rule("C25")
def test_a_wake_up_that_rolls_back_never_was(clock):
    with sessions.opened("waker") as (waker,):
        waker.begin()
        waker.run(lambda: workqueue.enqueue("node", "node_a"))
        waker.rollback()
    assert not WorkItem.objects.exists()


@pytest.mark.rule("C26")
def test_negative_control_deleting_without_the_generation_loses_the_wake_up(clock):
    workqueue.enqueue("node", "node_a")
    with sessions.opened("waker", "worker") as (waker, worker):
        (claim,) = worker.run(lambda: workqueue.claim(ALL, limit=1))
        waker.run(lambda: workqueue.enqueue("node", "node_a"))
        worker.sql("DELETE FROM work_queue WHERE id = %s", claim.id)
    assert not WorkItem.objects.exists()  # somebody's change would never be looked at


@pytest.mark.rule("C25", "C19")
def test_transactions_that_wake_the_same_keys_in_other_orders_do_not_deadlock(clock):
    keys = [f"node_{n}" for n in range(40)]

    def wake(order):
        for _ in range(10):
            workqueue.enqueue_many([("node", key, None) for key in order])

    results = sessions.race(*[lambda o=o: wake(o) for o in (keys, keys[::-1]) * 3])
    assert results == [None] * 6
    assert set(WorkItem.objects.values_list("gen", flat=True)) == {60}
