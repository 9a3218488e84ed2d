"""Who is dead on this host, by the locks of processes (C34)."""

import os
import signal
import subprocess
import sys

import pytest

from bettercompute.coordination import fencing, heartbeats, leases, owner, presence
from bettercompute.coordination.holdings import Holdings
from tests.support import sessions

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C34")]

# Holds the lock on a file as a worker of ours does, says so, and waits for its end.
NEIGHBOUR = """
import fcntl, os, sys
held = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
fcntl.flock(held, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def host(settings, tmp_path, monkeypatch):
    """A directory of locks, and a process of our own in it that nobody knows yet."""
    settings.PRESENCE_DIRECTORY = tmp_path / "processes"
    settings.PRESENCE_DIRECTORY.mkdir()
    monkeypatch.setattr(owner, "OWNER", "own_ours")
    monkeypatch.setattr(presence, "_locks", {})
    yield settings.PRESENCE_DIRECTORY
    presence.leave()


class Neighbour:
    """Another process of this host."""

    def __init__(self, host, name, prefix=None):
        self.file = host / f"{presence._of_database() if prefix is None else prefix}{name}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", NEIGHBOUR, self.file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout.readline() == b"locked\n"

    def kill(self):
        self.process.kill()
        self.process.communicate()


def test_what_a_killed_process_held_is_free_at_once_and_in_a_new_term(host, monkeypatch):
    neighbour = Neighbour(host, "own_neighbour")
    lease = leases.take("singleton:resync", owner="own_neighbour")
    with monkeypatch.context() as patch:
        patch.setattr(owner, "OWNER", "own_neighbour")
        heartbeats.beat("worker")
    ours = Holdings(["resync"])
    ours.refresh()
    assert ours.lease("singleton:resync") is None  # it lives

    neighbour.kill()
    presence.free_what_the_dead_held()
    assert leases.current("singleton:resync") is None
    assert heartbeats.alive("worker") == ["own_ours"]
    assert leases.take("singleton:resync").epoch == lease.epoch + 1
    assert not neighbour.file.exists()


def test_a_process_that_lives_is_never_taken_for_dead(host):
    neighbour = Neighbour(host, "own_neighbour")
    leases.take("singleton:resync", owner="own_neighbour")
    os.kill(neighbour.process.pid, signal.SIGSTOP)  # it says nothing and does nothing
    presence.free_what_the_dead_held()
    assert leases.current("singleton:resync").owner == "own_neighbour"
    neighbour.kill()


def test_our_own_lock_is_ours_and_goes_with_a_clean_stop(host):
    Holdings().refresh()
    (file,) = host.iterdir()
    assert file.name.endswith("own_ours")
    presence.free_what_the_dead_held()
    assert len(leases.holders()) > 0
    presence.leave()
    assert list(host.iterdir()) == []


def test_processes_of_another_database_are_not_our_matter(host):
    neighbour = Neighbour(host, "own_neighbour", prefix="another-")
    leases.take("singleton:resync", owner="own_neighbour")
    neighbour.kill()
    presence.free_what_the_dead_held()
    assert leases.current("singleton:resync") is not None
    assert neighbour.file.exists()


def test_without_a_place_for_locks_leases_lapse_by_time(host, settings, tmp_path):
    (tmp_path / "file").write_text("no directory")
    settings.PRESENCE_DIRECTORY = tmp_path / "file" / "processes"
    ours = Holdings(["resync"])
    ours.refresh()
    assert ours.lease("singleton:resync") is not None


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_the_dead_left_is_not_waited_for(host):
    neighbour = Neighbour(host, "own_neighbour")
    lease = leases.take("shard:1", owner="own_neighbour")
    leases.take("shard:2", owner="own_neighbour")
    neighbour.kill()
    with sessions.opened("left") as (left,):
        left.enter(fencing.fenced(lease))  # the server has yet to notice
        presence.free_what_the_dead_held()
        assert [holder.name for holder in leases.holders()] == ["shard:1"]
        assert neighbour.file.exists()
        left.rollback()
    presence.free_what_the_dead_held()
    assert leases.holders() == []
