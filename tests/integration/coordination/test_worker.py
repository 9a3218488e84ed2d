"""One worker process, step by step (C27, C33)."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import OperationalError

from bettercompute import wiring
from bettercompute.coordination import hints, leases, resync, worker, workqueue
from bettercompute.coordination.models import WorkItem
from bettercompute.coordination.runner import Done
from bettercompute.coordination.worker import Job, Worker

pytestmark = pytest.mark.django_db


class Counter:
    """A periodic job that counts its turns."""

    def __init__(self, error=None):
        self.turns = 0
        self.error = error

    def __call__(self, fence):
        self.turns += 1
        if self.error:
            raise self.error


def test_a_periodic_job_runs_every_so_often(clock):
    job = Counter()
    process = Worker({}, {"sweep": Job(60, job)})
    process.tick()
    process.tick()
    assert job.turns == 1
    clock.advance("59s")
    process.tick()
    assert job.turns == 1
    clock.advance("1s")
    process.tick()
    assert job.turns == 2


@pytest.mark.rule("C29")
def test_a_periodic_job_is_one_processs_at_a_time(clock):
    leases.take("singleton:sweep", owner="own_rival")
    job = Counter()
    process = Worker({}, {"sweep": Job(1, job)})
    process.tick()
    assert job.turns == 0
    clock.advance("15s")
    process.tick()
    assert job.turns == 1


def test_a_job_that_fails_stops_no_other_and_has_its_next_turn(clock, caplog):
    broken, well = Counter(ValueError("no")), Counter()
    process = Worker({}, {"broken": Job(1, broken), "well": Job(1, well)})
    process.tick()
    clock.advance("1s")
    process.tick()
    assert (broken.turns, well.turns) == (2, 2)
    assert "the periodic job broken failed" in caplog.text


@pytest.mark.rule("C30")
def test_a_job_writes_under_the_fence_of_its_lease(clock):
    def usurped(fence):
        leases.expire_all()
        leases.take("singleton:sweep", owner="own_rival")
        with fence():
            raise AssertionError("a zombie wrote")

    process = Worker({}, {"sweep": Job(1, usurped)})
    process.tick()
    assert process.holdings.lease("singleton:sweep") is None


@pytest.mark.rule("C33")
def test_a_lost_database_is_waited_for(monkeypatch, caplog):
    done = []
    process = Worker({"node": lambda key, fence: done.append(key) or Done()}, {})
    workqueue.enqueue("node", "node_a")
    with monkeypatch.context() as patch:

        def refuse(*_, **__):
            raise OperationalError("the connection is lost")

        patch.setattr(workqueue, "due_shards", refuse)
        assert process.look() == 0
    assert "the next look tries again" in caplog.text
    assert process.look() == 1
    assert done == ["node_a"]


@pytest.mark.rule("C27")
def test_resync_wakes_every_live_key():
    keys = [f"node_{n}" for n in range(2_500)]
    assert resync.run({"node": lambda: keys, "pool": lambda: ["pool_a"]}) == 2_501
    assert WorkItem.objects.count() == 2_501


@pytest.mark.rule("C27")
def test_the_products_resync_runs_on_an_empty_system():
    assert wiring.resync() == 0


@pytest.mark.rule("C34")
def test_expire_leases_frees_them_for_the_next_start(capsys):
    leases.take("shard:1", owner="own_killed")
    call_command("expire_leases")
    assert "1 leases expired" in capsys.readouterr().out
    assert leases.take("shard:1", owner="own_next").epoch == 2


def test_work_once_does_what_is_due_and_gives_its_leases_up(monkeypatch, capsys):
    done = []
    process = Worker({"node": lambda key, fence: done.append(key) or Done()}, {})
    monkeypatch.setattr(worker, "current", lambda: process)
    # The stop closes connections; this test's is in the test's transaction.
    monkeypatch.setattr(worker.connections, "close_all", lambda: None)
    workqueue.enqueue("node", "node_a")
    call_command("work", "--once")
    assert done == ["node_a"]
    assert leases.holders() == []
    assert "1 done" in capsys.readouterr().out


@pytest.mark.rule("C28")
def test_a_hint_is_sent_after_the_commit_and_only_for_work_due_now(
    clock, settings, monkeypatch, django_capture_on_commit_callbacks
):
    settings.HINTS = True
    sent = []
    monkeypatch.setattr(hints, "send", lambda: sent.append(True))
    with django_capture_on_commit_callbacks(execute=True):
        workqueue.enqueue("node", "node_a")
        assert sent == []
    assert sent == [True]
    with django_capture_on_commit_callbacks(execute=True):
        workqueue.enqueue("node", "node_b", not_before=clock.now() + timedelta(days=1))
    assert sent == [True]
