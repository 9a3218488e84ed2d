"""Behind a transaction pooler: nothing relies on a session, and nothing is left on one (C24)."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.db import connection
from psycopg.conninfo import make_conninfo

from bettercompute import selfcheck
from bettercompute.coordination import fencing, leases
from bettercompute.coordination.models import WorkItem
from bettercompute.coordination.runner import Runner
from bettercompute.wiring import reconcilers
from outbox import dispatch
from tests.support import cast, horizon, invariants, make, sessions, ways
from tests.support.storm_agents import Agent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C24")]

NAME = "shard:1"
WAIT_SECONDS_MAX = 60.0
# What libpq's protocol has every server report: a pooler carries these over with each client.
CARRIED = {
    "application_name",
    "client_encoding",
    "DateStyle",
    "standard_conforming_strings",
    "TimeZone",
}
STATE = """
SELECT pg_backend_pid(),
       ARRAY(SELECT 'setting ' || name FROM pg_settings
              WHERE source = 'session' AND name <> ALL (%s))
    || ARRAY(SELECT 'prepared statement ' || name FROM pg_prepared_statements)
    || ARRAY(SELECT 'cursor ' || name FROM pg_cursors WHERE name <> '')
    || ARRAY(SELECT 'listening to ' || c FROM pg_listening_channels() AS c)
    || ARRAY(SELECT 'advisory lock ' || objid FROM pg_locks WHERE locktype = 'advisory')
    || ARRAY(SELECT 'temporary table ' || relname FROM pg_class WHERE relpersistence = 't')
"""


class Collector:
    """A sink that keeps the types of what it is told."""

    def __init__(self):
        self.types = []

    def deliver(self, batch):
        self.types += [event.type for event in batch]


def test_a_reservation_goes_its_whole_way_and_leaves_nothing_on_a_session(clock, way):
    alice, runner, sink = cast.api("alice"), Runner(reconcilers()), Collector()
    tenant = {"tenantId": cast.tenant().pk}
    body = {
        **tenant,
        "poolId": make.pool().pk,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": "1h",
    }
    created = alice.post("/reservations", body, Idempotency_Key="whole").json()
    assert alice.post("/reservations", body, Idempotency_Key="whole").json()["id"] == created["id"]
    where = f"/reservations/{created['id']}"
    agent = Agent(created["allocations"][0]["nodeId"])

    work(runner, agent)
    assert alice.get(where).json()["state"] == "active"
    assert alice.post(f"{where}/release", tenant).status_code == 200
    work(runner, agent)
    assert alice.get(where).json()["state"] == "released"
    assert invariants.violations() == []
    assert invariants.held() == []

    lease = leases.take("singleton:outbox-dispatch:test")
    horizon.let_writers_elsewhere_end()
    dispatch.drain("test", sink, fence=lambda: fencing.fenced(lease))
    told = [each for each in sink.types if each.startswith("reservation.")]
    assert (told[0], told[-1]) == ("reservation.placed", "reservation.released")
    assert told.count("reservation.active") == 1
    selfcheck.run()
    runner.holdings.give_up_all()
    assert [holder.name for holder in leases.holders()] == [lease.name]
    assert [state for state in states_of_sessions().values() if state] == []


def work(runner, agent):
    """Worker and agent take turns until neither has anything to do."""
    while runner.drain() or agent.report(silent=0.0, failing=0.0):
        pass


@pytest.mark.rule("C30")
@pytest.mark.case(32)
def test_a_client_that_dies_behind_the_pooler_leaves_nothing_held(clock, way):
    lease = _die_in_a_fenced_transaction()
    clock.advance("15s")
    taken = leases.take(NAME, owner="own_next")  # waits for no lock of the dead
    assert taken.epoch == lease + 1
    assert not WorkItem.objects.exists()
    assert _locks_of_others() == 0
    assert [state for state in states_of_sessions().values() if state] == []


def _die_in_a_fenced_transaction():
    """SIGKILL to a process of ours; answers the epoch it had."""
    settings = connection.settings_dict
    url = make_conninfo(
        **{key: settings[key.upper()] for key in ("host", "port", "user", "password")},
        dbname=settings["NAME"],
    )
    with subprocess.Popen(
        [sys.executable, Path(__file__).with_name("dying_client.py"), NAME],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "DATABASE_URL": url},
        stdout=subprocess.PIPE,
    ) as dying:
        epoch = int(dying.stdout.readline())
        assert _locks_of_others() > 0
        dying.kill()
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while _locks_of_others() and time.monotonic() < deadline:
        time.sleep(0.01)
    return epoch


def _locks_of_others():
    """Transactions that hold anything, but our own."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(DISTINCT l.pid) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)"
            " WHERE a.datname = current_database() AND l.pid <> pg_backend_pid()"
        )
        return cursor.fetchone()[0]


@pytest.mark.usefixtures("clock")
def test_the_time_zone_is_ours_whatever_the_server_prefers(pooler):
    """The one setting that Django makes on a session is one that a pooler carries over."""
    with connection.cursor() as cursor:
        name = connection.settings_dict["NAME"]
        cursor.execute(f"ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'")
        try:
            pooler.stop()
            pooler.start()
            with ways.by(pooler), connection.cursor() as pooled:
                for _ in range(2 * ways.SERVERS):
                    pooled.execute("SELECT current_setting('TimeZone')")
                    assert pooled.fetchone() == ("UTC",)
        finally:
            with connection.cursor() as direct:
                direct.execute(f"ALTER DATABASE {name} RESET timezone")
            pooler.stop()
            pooler.start()


@pytest.mark.usefixtures("clock")
@pytest.mark.rule("C29")
@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("SELECT pg_advisory_lock(32)", "advisory lock 32"),
        ("SET lock_timeout = '7s'", "setting lock_timeout"),
        ("PREPARE planned AS SELECT 1", "prepared statement planned"),
        ("LISTEN wakeups", "listening to wakeups"),
        ("CREATE TEMPORARY TABLE scratch (id int)", "temporary table scratch"),
    ],
)
def test_negative_control_what_belongs_to_a_session_outlives_its_client(pooler, statement, left):
    with ways.by(pooler):
        with sessions.opened("leader") as (leader,):
            leader.sql(statement)
        found = states_of_sessions()  # the client has gone, and nobody can tell
    pooler.stop()
    pooler.start()
    assert left in {each for state in found.values() for each in state}


def states_of_sessions():
    """What each server connection that this way leads to keeps beyond transactions."""
    found = {}
    for _ in range(3 * ways.SERVERS):  # the pooler goes round
        with connection.cursor() as cursor:
            cursor.execute(STATE, [list(CARRIED)])
            pid, state = cursor.fetchone()
            found[pid] = state
    return found
