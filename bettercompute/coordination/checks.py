"""Self-checks of coordination (C39): clock, queue, leases, processes, broker, schema, server."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import redis
from django.conf import settings

from bettercompute import clock, findings, sql
from bettercompute.celery import app
from bettercompute.coordination import (
    heartbeats,
    leases,
    roles,
    schema,
    timeouts,
    workqueue,
)
from bettercompute.coordination.heartbeats import Role
from bettercompute.findings import Check, Finding

CHECKS = sql.load(__package__, "checks")

SKEW_MAX = timedelta(seconds=1)
LAG_MAX = timedelta(minutes=1)
TRANSACTION_MAX = timedelta(minutes=5)
ATTEMPTS_MANY = 5
BROKER_SECONDS_MAX = 2
CELERY_SECONDS_MAX = 2
LOCK_SECONDS_MAX = 1.0


@findings.check("clock.skew")
def clock_skew() -> Iterable[Finding]:
    """This host's clock and this process's business time agree with the database (C7)."""
    row = CHECKS.one("server_time")
    assert row is not None
    wall = datetime.fromtimestamp(time.time(), UTC)  # noqa: TID251  # check-sql-now: allow
    if abs(skew := wall - row[0]) > SKEW_MAX:
        yield Finding(
            "clock.skew",
            f"This host's clock is {skew.total_seconds():+.1f} s off the database's.",
            "Run NTP on both; until then only times in logs are wrong, no decision is.",
        )
    if abs(drift := clock.drift()) > SKEW_MAX:
        yield Finding(
            "clock.skew",
            f"The business time of this process has drifted by {drift.total_seconds():+.1f} s.",
            "Workers and gateways follow the database within seconds; restart this process, and"
            " find out what stopped or stepped its host.",
        )


@findings.check("clock.source")
def clock_source() -> Iterable[Finding]:
    """compute_now() is the database's own clock (C4)."""
    row = CHECKS.one("clock_source")
    assert row is not None
    body = row[0]
    if body != clock.expected_body():
        yield Finding(
            "clock.source",
            "There is no compute_now()." if body is None else f"compute_now() is made of: {body}",
            "Stop the control plane and restore the function from"
            " coordination/migrations/sql/0001_clock.sql: leases and deadlines follow it.",
        )


@findings.check("queue.lag")
def queue_lag() -> Iterable[Finding]:
    """No work is overdue by more than a minute (C27)."""
    count, worst = workqueue.lag()
    if worst > LAG_MAX:
        yield Finding(
            "queue.lag",
            f"{count} rows of the work queue are due, the oldest for {worst}.",
            "Start a worker, or one more; manage.py work does the same by hand.",
        )


@findings.check("queue.failing")
def queue_failing() -> Iterable[Finding]:
    """No work fails again and again (C26)."""
    for row in workqueue.failing(attempts_min=ATTEMPTS_MANY):
        yield Finding(
            "queue.failing",
            f"{row.kind} {row.key} failed {row.attempts} times in {row.age}: {row.last_error}",
            "Read the worker's log for this key; the row is tried again every five minutes.",
        )


@findings.check("leases.stale")
def leases_held() -> Iterable[Finding]:
    """Where workers live, every shard and every periodic job has a holder (C29)."""
    if not heartbeats.alive(Role.WORKER):
        return  # workers_alive says so
    if free := leases.free(roles.wanted()):
        yield Finding(
            "leases.stale",
            f"Nobody holds {', '.join(free)}.",
            "Look again in 15 s; if it stays so, read the workers' logs.",
        )


@findings.check("workers.alive")
def workers_alive() -> Iterable[Finding]:
    """A worker lives and can write (C38)."""
    if not heartbeats.alive(Role.WORKER):
        yield Finding(
            "workers.alive",
            "No worker has written its heartbeat for 15 s; nothing is reconciled.",
            "Start one: celery -A bettercompute.celery worker.",
        )


@findings.check("web.alive")
def web_alive() -> Iterable[Finding]:
    """A web process lives and can write (C38)."""
    if not heartbeats.alive(Role.WEB):
        yield Finding(
            "web.alive",
            "No web process has written its heartbeat for 15 s; nobody can reserve or renew.",
            "Start one: gunicorn -c python:bettercompute.gunicorn_conf"
            " bettercompute.asgi:application.",
        )


@findings.check("beat.ticking")
def beat_ticking() -> Iterable[Finding]:
    """A beat gives the workers their pace (C27)."""
    if not heartbeats.alive(Role.BEAT):
        yield Finding(
            "beat.ticking",
            "No beat has ticked for 15 s; workers go by their own clocks, every three seconds.",
            "Start one: celery -A bettercompute.celery beat.",
        )


@findings.check("broker.reachable")
def broker_reachable() -> Iterable[Finding]:
    """The broker answers; it carries hints only, so without it everything is a second slower."""
    if (error := _broker_error()) is not None:
        yield Finding(
            "broker.reachable",
            f"Valkey does not answer: {error}",
            "Start it, or correct REDIS_URL; work goes on by itself, a second slower.",
        )


@findings.check("celery.answers")
def celery_answers() -> Iterable[Finding]:
    """A living worker can be reached through the broker."""
    if _broker_error() is not None or not heartbeats.alive(Role.WORKER):
        return  # their own checks say so
    if not answering_workers():
        yield Finding(
            "celery.answers",
            "Workers write their heartbeats, but none answers through the broker.",
            "See that they have the same REDIS_URL as this process; work goes on, a second slower.",
        )


@findings.check("schema.guards")
def schema_guards() -> Iterable[Finding]:
    """Constraints, triggers and functions are there, switched on, and as migrated (C3, C9)."""
    for missing in schema.unguarded():
        yield Finding(
            "schema.guards",
            missing,
            "Stop the control plane and restore it as in docs/schema.sql, then run the self-check"
            " again: what it kept out may have come in.",
        )


@findings.check("schema.migrations")
def schema_migrated() -> Iterable[Finding]:
    """Every migration of this release is applied."""
    if unapplied := schema.unapplied():
        yield Finding(
            "schema.migrations",
            f"Not applied: {', '.join(unapplied)}.",
            "Run manage.py migrate.",
        )


@findings.check("database.transactions")
def short_transactions() -> Iterable[Finding]:
    """No transaction stays open for minutes: it keeps dead rows, and may hold locks (C24)."""
    seconds = TRANSACTION_MAX.total_seconds()
    for pid, who, state, age, query in CHECKS.all("long_transactions", seconds=seconds):
        yield Finding(
            "database.transactions",
            f"pid {pid} ({who}, {state}) has had a transaction open for {age}: {query}",
            f"If it is no backup, end it: SELECT pg_terminate_backend({pid}).",
        )


@findings.check("database.timeouts")
def role_timeouts() -> Iterable[Finding]:
    """The database role has timeouts, which bound what a lost client of ours holds (C24)."""
    if unset := timeouts.unset():
        yield Finding(
            "database.timeouts",
            f"Sessions of our role begin without {', '.join(unset)}.",
            "Run manage.py set_timeouts once as this role, then restart the control plane.",
        )


@findings.check("settings.debug")
def debug_off() -> Iterable[Finding]:
    """The server shows nobody its insides."""
    if settings.DEBUG:
        yield Finding(
            "settings.debug",
            "DEBUG is on: errors show settings and code, and every query is kept in memory.",
            "Take DEBUG out of the settings.",
        )


def bound(*, seconds: float) -> None:
    """Let no statement of this transaction take longer, and none wait long for a lock."""
    lock_seconds = min(LOCK_SECONDS_MAX, seconds)
    CHECKS.one("limits", statement_ms=int(seconds * 1_000), lock_ms=int(lock_seconds * 1_000))


def answering_workers() -> list[str]:
    """The first worker that answers a ping through the broker, by name; none if none does."""
    inspector = app.control.inspect(timeout=CELERY_SECONDS_MAX, limit=1)
    return sorted(inspector.ping() or ())


def _broker_error() -> redis.RedisError | None:
    client = redis.Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=BROKER_SECONDS_MAX,
        socket_timeout=BROKER_SECONDS_MAX,
    )
    try:
        client.ping()
    except redis.RedisError as error:
        return error
    finally:
        client.close()
    return None


ALL: tuple[Check, ...] = (
    clock_skew,
    clock_source,
    schema_guards,
    schema_migrated,
    short_transactions,
    role_timeouts,
    debug_off,
    workers_alive,
    web_alive,
    beat_ticking,
    leases_held,
    queue_lag,
    queue_failing,
    broker_reachable,
    celery_answers,
)
