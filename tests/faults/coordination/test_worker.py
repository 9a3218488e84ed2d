"""Real Celery workers, killed, stopped, and without their broker (C1, C29, C33, C35)."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from django.conf import settings
from django.db import connection

from bettercompute.coordination import heartbeats, leases, workqueue
from bettercompute.coordination.models import WorkItem
from outbox.models import Event

pytestmark = pytest.mark.django_db(transaction=True)

WAIT_SECONDS_MAX = 120.0
DEAD_BROKER = "redis://127.0.0.1:1/0"


@dataclass
class Process:
    """A worker of its own."""

    popen: subprocess.Popen

    def wait_until_it_leads(self):
        wait_for(lambda: len(leases.holders()) == workqueue.SHARDS, "it to hold every shard")

    def signal(self, number):
        self.popen.send_signal(number)
        self.popen.wait(timeout=WAIT_SECONDS_MAX)


def wait_for(condition: Callable[[], bool], what: str, *, clock=None) -> float:
    """Wait for another process; with ``clock``, simulated time goes by meanwhile, as real time."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < WAIT_SECONDS_MAX, f"waited too long for {what}"
        time.sleep(0.02)
        if clock is not None:
            clock.advance("20ms")
    return time.monotonic() - started


@contextmanager
def worker(**environment: str) -> Iterator[Process]:
    database = connection.settings_dict
    url = os.environ["DATABASE_URL"].replace("/postgres?", f"/{database['NAME']}?")
    command = [sys.executable, "-m", "celery", "-A", "bettercompute.celery", "worker"]
    quiet = ["--loglevel=WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    popen = subprocess.Popen(
        command + quiet,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings_worker",
            "DATABASE_URL": url,
            **environment,
        },
    )
    try:
        yield Process(popen)
    finally:
        if popen.poll() is None:
            popen.kill()
            popen.wait()


def done(key: str) -> Callable[[], bool]:
    return lambda: Event.objects.filter(subject=f"pool/{key}").exists()


@pytest.fixture
def _hints(monkeypatch):
    """This process tells the workers, as a web process does."""
    monkeypatch.setattr(settings, "HINTS", True)


@pytest.mark.usefixtures("clock", "_hints")
@pytest.mark.rule("C28")
def test_work_is_done_at_once_by_a_worker_that_is_told_of_it_and_does_not_look():
    with worker(QUIET_SECONDS="100000") as process:
        process.wait_until_it_leads()
        for number in range(5):
            workqueue.enqueue("probe", f"key-{number}")
            wait_for(done(f"key-{number}"), "a row")
        wait_for(lambda: not WorkItem.objects.exists(), "the rows to be taken off the queue")


@pytest.mark.usefixtures("clock")
@pytest.mark.rule("C1", "C28")
def test_without_a_broker_work_is_only_late():
    with worker(REDIS_URL=DEAD_BROKER) as process:
        workqueue.enqueue("probe", "late")
        wait_for(done("late"), "a worker that no message reaches")
        assert process.popen.poll() is None


@pytest.mark.usefixtures("clock")
@pytest.mark.rule("C29")
def test_a_clean_stop_gives_every_lease_up_at_once():
    with worker() as process:
        process.wait_until_it_leads()
        process.signal(signal.SIGTERM)
        assert leases.holders() == []  # no simulated second has passed
        assert heartbeats.alive("worker") == []
        assert process.popen.returncode == 0


@pytest.mark.rule("C32", "C34")
def test_a_worker_killed_is_followed_at_once_on_its_host(clock, tmp_path):
    """Time hardly passes: no lease of the dead worker lapses here."""
    with worker(HOST_OF_WORKERS=str(tmp_path / "here")) as killed:
        killed.wait_until_it_leads()
        before = {holder.name: holder for holder in leases.holders()}
        killed.signal(signal.SIGKILL)
        with worker(HOST_OF_WORKERS=str(tmp_path / "there")) as elsewhere:
            wait_for(lambda: len(heartbeats.alive("worker")) == 2, "a worker on another host")
            clock.advance("2s")  # it looks, and cannot know
            assert _held_by(before["shard:0"].owner) == before.keys()
            with worker(HOST_OF_WORKERS=str(tmp_path / "here")):
                wait_for(lambda: not _held_by(before["shard:0"].owner), "the next on this host")
                clock.advance("2s")  # the other looks again, and takes its share
                wait_for(lambda: len(leases.holders()) == len(before), "all to be held again")
                assert len(_owners()) == 2
            assert elsewhere.popen.poll() is None
    after = {holder.name: holder for holder in leases.holders()}
    assert all(after[name].epoch > before[name].epoch for name in before)


def _held_by(owner: str) -> set[str]:
    return {holder.name for holder in leases.holders() if holder.owner == owner}


@pytest.mark.rule("C1", "C26", "C30", "C35")
def test_a_worker_killed_in_its_transaction_is_followed_after_the_lease_time(clock):
    with worker(PROBE_HANGS="1") as killed, worker() as survivor:
        wait_for(lambda: len(heartbeats.alive("worker")) == 2, "two workers")
        wait_for(lambda: len(_owners()) == 2, "a fair share for both", clock=clock)
        key = _key_of(_owner_of(killed))
        workqueue.enqueue("probe", key)
        workqueue.enqueue_many([("probe", f"other-{n}", None) for n in range(20)])
        wait_for(_hangs_in_a_transaction, "the first worker to hang")
        killed.signal(signal.SIGKILL)
        assert not done(key)()
        clock.advance("20s")  # the time to live, and the five seconds of a fenced transaction
        wait_for(done(key), "the survivor to take over", clock=clock)
        wait_for(lambda: not WorkItem.objects.exists(), "everything to be done", clock=clock)
        assert survivor.popen.poll() is None
    # Whoever held its shard committed each once, and the one that hung the survivor alone. What the
    # dead worker had committed and not yet taken off the queue was looked at again (C26).
    done_by = list(Event.objects.values_list("tenant_id", "subject"))
    assert len(done_by) == len(set(done_by))
    assert len({subject for _, subject in done_by}) == 21
    assert [who for who, what in done_by if what == f"pool/{key}"] == [str(survivor.popen.pid)]


def _owners() -> set[str]:
    return {holder.owner for holder in leases.holders()}


def _owner_of(process: Process) -> str:
    (holder,) = {
        holder.owner
        for holder in leases.holders()
        if holder.note.endswith(f"pid {process.popen.pid}")
    }
    return holder


def _key_of(owner: str) -> str:
    """A key that hangs, in a shard of this owner."""
    shards = {h.name for h in leases.holders() if h.owner == owner}
    keys = (f"hang-{number}" for number in range(1_000))
    return next(key for key in keys if f"shard:{workqueue.shard_of(key)}" in shards)


def _hangs_in_a_transaction() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state = 'idle in transaction'"
            " AND query LIKE '%%INTO outbox%%'"
        )
        (count,) = cursor.fetchone()
        return bool(count)


@pytest.mark.usefixtures("clock")
@pytest.mark.rule("C33")
def test_a_worker_that_loses_its_database_goes_on_in_the_same_term():
    with worker() as process:
        process.wait_until_it_leads()
        before = leases.holders()
        with connection.cursor() as cursor:
            for number in range(3):
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                workqueue.enqueue("probe", f"after-{number}")
                wait_for(done(f"after-{number}"), "the worker to come back")
        assert process.popen.poll() is None
        assert [(h.name, h.epoch) for h in leases.holders()] == [(h.name, h.epoch) for h in before]
