"""A reservation goes its way though the worker is killed and the broker emptied (C1, C27, C40)."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis
from django.db import connection

from bettercompute.coordination import leases, workqueue
from reservations import ending
from reservations.models import Reservation
from tests.support import cast, invariants, make, sessions
from tests.support.storm_agents import Agent

pytestmark = pytest.mark.django_db(transaction=True)

WAIT_SECONDS_MAX = 120.0  # a second or two, where nothing else runs
# A database of its own on the server that all tests share: emptying it is nobody else's business.
BROKER = os.environ.get("REDIS_URL", "").replace("db=0", "db=9")


@contextmanager
def worker() -> Iterator[subprocess.Popen]:
    """A real Celery worker on the test's database, with the product's wiring."""
    database = connection.settings_dict["NAME"]
    command = [sys.executable, "-m", "celery", "-A", "bettercompute.celery", "worker"]
    quiet = ["--loglevel=WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    process = subprocess.Popen(
        command + quiet,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings_product_worker",
            "DATABASE_URL": os.environ["DATABASE_URL"].replace("/postgres?", f"/{database}?"),
            "REDIS_URL": BROKER,
        },
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)


def state(reservation: Reservation) -> str:
    return Reservation.objects.values_list("state", flat=True).get(pk=reservation.pk)


def speaks_until(agent: Agent, condition: Callable[[], bool], what: str) -> None:
    """Wait while the node's agent says what is true of it."""

    def look() -> bool:
        agent.report(silent=0.0, failing=0.0)
        return condition()

    wait_for(look, what)


def agent_of(reservation: Reservation) -> Agent:
    return Agent(reservation.allocations.get().node_id)


@pytest.mark.rule("C1", "C26", "C30", "C40")
@pytest.mark.case(34)
def test_a_worker_killed_inside_its_transaction_only_delays(clock):
    reservation = make.reservation(cast.caller("alice"), make.pool(), duration="1h")
    with sessions.opened("holder") as (holder,):
        holder.begin()
        holder.sql("SELECT 1 FROM reservations WHERE id = %s FOR UPDATE", reservation.pk)
        with worker() as killed:
            wait_for(lambda: _waits_for(holder.backend), "the worker to reach the reservation")
            killed.send_signal(signal.SIGKILL)
            killed.wait()
        holder.rollback()

    assert state(reservation) == "placed"
    clock.advance("20s")  # the lease, and the five seconds of a fenced transaction
    with worker():
        agent = agent_of(reservation)
        speaks_until(agent, lambda: state(reservation) == "active", "the next worker")
    assert invariants.violations() == []


@pytest.mark.rule("C1", "C27", "C28", "C40")
@pytest.mark.case(34)
def test_a_broker_that_is_emptied_all_the_time_only_delays(clock):
    alice = cast.caller("alice")
    broker = redis.Redis.from_url(BROKER)
    with worker():
        wait_for(lambda: len(leases.holders()) >= workqueue.SHARDS, "the worker to lead")
        reservation = make.reservation(alice, make.pool(), duration="1h")
        agent = agent_of(reservation)

        def emptied_and_active() -> bool:
            broker.flushdb()
            return state(reservation) == "active"

        def emptied_and_free() -> bool:
            broker.flushdb()
            return reservation.allocations.get().state == "released"

        speaks_until(agent, emptied_and_active, "the reservation to become active")
        ending.release(alice, reservation_id=reservation.pk)
        speaks_until(agent, emptied_and_free, "the node to let go")
    assert invariants.violations() == []
    assert invariants.held() == []


def _waits_for(backend: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))", [backend]
        )
        (count,) = cursor.fetchone()
        return bool(count)
