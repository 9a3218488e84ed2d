"""Self-checks of coordination (C39): clock, queue, leases, guards, broker, workers."""

import time
from datetime import UTC, datetime, timedelta

import redis
from django.conf import settings
from django.db import connection

from bettercompute import sql, states
from bettercompute.coordination import heartbeats, holdings, leases, workqueue
from bettercompute.findings import Finding

CHECKS = sql.load(__package__, "checks")

SKEW_MAX = timedelta(seconds=1)
LAG_MAX = timedelta(minutes=1)
ATTEMPTS_MANY = 5
BROKER_SECONDS_MAX = 2


def clock_skew() -> list[Finding]:
    """This host's wall clock against the database's (C7). Nothing decides by it; people read it."""
    wall = datetime.fromtimestamp(time.time(), UTC)  # noqa: TID251  # check-sql-now: allow
    row = CHECKS.one("server_time")
    assert row is not None
    skew = wall - row[0]
    if abs(skew) <= SKEW_MAX:
        return []
    return [
        Finding(
            "clock.skew",
            f"This host's clock is {skew.total_seconds():+.1f} s off the database's.",
            "Run NTP on both; until then only times in logs are wrong, no decision is.",
        )
    ]


def queue_lag() -> list[Finding]:
    """Work that is overdue."""
    count, worst = workqueue.lag()
    if worst <= LAG_MAX:
        return []
    return [
        Finding(
            "queue.lag",
            f"{count} rows of the work queue are due, the oldest for {worst}.",
            "Start a worker, or one more; manage.py work does the same by hand.",
        )
    ]


def queue_failing() -> list[Finding]:
    """Work that fails again and again."""
    return [
        Finding(
            "queue.failing",
            f"{row.kind} {row.key} failed {row.attempts} times: {row.last_error}",
            "Read the worker's log for this key; the row is tried again every five minutes.",
        )
        for row in workqueue.failing(attempts_min=ATTEMPTS_MANY)
    ]


def leases_held() -> list[Finding]:
    """Shards that nobody holds although workers live."""
    if not heartbeats.alive(holdings.ROLE):
        return []  # workers_alive says so
    free = leases.free(holdings.shard_name(shard) for shard in range(workqueue.SHARDS))
    if not free:
        return []
    return [
        Finding(
            "leases.stale",
            f"Nobody holds {', '.join(free)}.",
            "Look again in 15 s; if it stays so, read the workers' logs.",
        )
    ]


def workers_alive() -> list[Finding]:
    """That somebody does the work."""
    if heartbeats.alive(holdings.ROLE):
        return []
    return [
        Finding(
            "workers.alive",
            "No worker has written its heartbeat for 15 s; nothing is reconciled.",
            "Start one: celery -A bettercompute.celery worker.",
        )
    ]


def state_guards() -> list[Finding]:
    """The triggers that refuse illegal transitions (C3)."""
    wanted = sorted(
        f"{machine.table}_state_guard"
        for machine in states.MACHINES.values()
        if machine.table in connection.introspection.table_names()
    )
    present = {row[0] for row in CHECKS.all("triggers", names=wanted)}
    return [
        Finding(
            "states.guard",
            f"The trigger {name} is missing or off.",
            "Restore it from the app's migrations; until then only code guards these states.",
        )
        for name in wanted
        if name not in present
    ]


def broker_reachable() -> list[Finding]:
    """The broker carries hints only: without it everything is a second slower."""
    client = redis.Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=BROKER_SECONDS_MAX,
        socket_timeout=BROKER_SECONDS_MAX,
    )
    try:
        client.ping()
    except redis.RedisError as error:
        return [
            Finding(
                "broker.reachable",
                f"Valkey does not answer: {error}",
                "Start it, or correct REDIS_URL; work goes on by itself, a second slower.",
            )
        ]
    finally:
        client.close()
    return []


ALL = (
    clock_skew,
    queue_lag,
    queue_failing,
    leases_held,
    workers_alive,
    state_guards,
    broker_reachable,
)
