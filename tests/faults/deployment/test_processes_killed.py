"""Broker, worker and gateway killed under load, each at its worst moment (C1, C40; case 34)."""

import email.utils
import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime

import httpx2
import pytest
import redis

from tests.support.deployment import deployment, trial, waiting
from tests.support.deployment.deployment import Deployment
from tests.support.deployment.running import Server
from tests.support.deployment.trial import Recovery, Trial

BROKER_GONE_SECONDS = 20.0
FLAPS = 4
FLAP_SECONDS = 2.5
HOUR_SECONDS = 3_600

Report = Callable[[Recovery], None]

_SILENCE = (
    "SELECT type, subject FROM outbox"
    " WHERE type IN ('node.disconnected', 'node.unreachable') AND time > %s"
)
_SEEN = (
    "SELECT node_id, extract(epoch FROM compute_now() - last_seen_at)::float8 FROM node_sessions"
    " ORDER BY node_id"
)
_CONDITION = (
    "SELECT type FROM node_conditions WHERE node_id = %s"
    " AND type IN ('Connected', 'Disconnected', 'Unreachable')"
)
_WAITS_FOR = (
    "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    " AND state = 'active'"
)


@pytest.fixture(scope="module")
def running() -> Iterator[Trial]:
    """One control plane."""
    with deployment.started() as started, trial.of(started) as made:
        yield made


@pytest.mark.long  # without load: tests/faults/reservations/test_worker_and_broker.py
@pytest.mark.rule("C1", "C27", "C28", "C40")
def test_the_broker_emptied_and_gone_for_twenty_seconds(running: Trial, report: Report) -> None:
    services = running.deployment
    with running.load(seed=11) as load:
        _broker(services).flushall()
        services.valkey.kill()
        begun = time.monotonic()
        # Nobody needs it: reservations are made and bound meanwhile.
        without = running.recovered("broker gone", begun)
        waiting.until(lambda: load.tally["release 200"], "a release")
        time.sleep(max(0.0, begun + BROKER_GONE_SECONDS - time.monotonic()))
        services.valkey.start()
        _flap(services)
        since = time.monotonic()
        # The longer it was gone, the longer its clients wait between two tries.
        heard = waiting.how_long(lambda: _listeners(services), "the worker to listen again", 120)
        recovery = running.recovered(
            "broker emptied and gone for 20 s",
            since,
            **{f"{what} without it": took for what, took in without.seconds.items()},
            hints=heard,
        )
    running.prove()
    report(recovery)
    assert _unavailable(load.tally) == 0
    (plane,) = services.planes
    # Neither ended, however often the broker did; and the worker's log tells of it.
    assert plane.worker.alive()
    assert plane.beat.alive()
    assert "Connection to broker lost" in services.log("worker")


@pytest.mark.long  # without load: tests/faults/reservations/test_worker_and_broker.py
@pytest.mark.rule("C1", "C26", "C30", "C40")
@pytest.mark.case(34)
def test_a_worker_killed_inside_its_transaction(running: Trial, report: Report) -> None:
    services = running.deployment
    (plane,) = services.planes
    with running.load(seed=12):
        held = running.reserve("killed-inside", duration="20m", start=_in_seconds(services, 8))
        with deployment.connect(services.direct_url) as holder, holder.transaction():
            holder.execute("SELECT FROM reservations WHERE id = %s FOR UPDATE", [held["id"]])
            backend = holder.info.backend_pid
            waiting.until(
                lambda: services.sql(_WAITS_FOR, backend)[0][0], "the worker to need the row"
            )
            plane.worker.kill()
        since = time.monotonic()
        plane.worker.start(wait=False)
        recovery = running.recovered("worker killed inside its transaction", since)
        waiting.until(lambda: _state(services, held["id"]) == "active", "the one it was at")
    running.prove()
    report(recovery)


@pytest.mark.long  # without load: tests/faults/nodes/test_gateway_process.py
@pytest.mark.rule("C1", "C37", "C38", "C40")
def test_the_gateway_killed(running: Trial, report: Report) -> None:
    services = running.deployment
    (plane,) = services.planes
    epochs = services.sql("SELECT node_id, epoch FROM node_sessions ORDER BY node_id")
    begun = _now(services)
    with running.load(seed=14):
        plane.gateway.kill()
        time.sleep(5.0)
        since = time.monotonic()
        plane.gateway.start(wait=False)
        recovery = running.recovered("gateway killed", since)
    running.prove()
    report(recovery)
    assert services.sql("SELECT node_id, epoch FROM node_sessions ORDER BY node_id") == epochs
    assert services.sql(_SILENCE, begun) == []


@pytest.mark.long  # mostly waiting; clocks: tests/integration/nodes/test_liveness.py
@pytest.mark.rule("C8", "C36", "C40")
@pytest.mark.parametrize("hours", [1, *([-1] if os.environ.get("LONG") else [])])
def test_a_gateway_whose_clock_is_an_hour_wrong(running: Trial, report: Report, hours: int) -> None:
    services = running.deployment
    (plane,) = services.planes
    (first, _), *_ = services.sql(_SEEN)
    begun = _now(services)
    plane.gateway.stop()
    plane.gateway.application = "tests.support.deployment.wrong_clock:application"
    try:
        wrong = {"WRONG_CLOCK_SECONDS": str(hours * HOUR_SECONDS)}
        with running.load(seed=15 + hours):
            since = time.monotonic()
            plane.gateway.start(wait=False, environment=wrong)
            recovery = running.recovered(f"gateway's clock wrong by {hours} h", since)
            assert abs(_clock_of(plane.gateway) / HOUR_SECONDS - hours) < 0.1
            time.sleep(6.0)  # over one flush, one heartbeat and one judgement
            ages = [age for _, age in services.sql(_SEEN)]
            assert all(-1.0 < age < 15.0 for age in ages), ages
            assert services.sql(_SILENCE, begun) == []
            if hours > 0:  # such a clock could make the silent seem alive, the other the reverse
                _silence(services, first)
        running.prove()
    finally:
        plane.gateway.stop()
        plane.gateway.application = ""
        plane.gateway.start()
    report(recovery)


@pytest.mark.long  # it waits for what is missed to be missed: coordination/test_checks.py
@pytest.mark.rule("C39")
def test_what_has_died_is_named_and_nothing_else(running: Trial) -> None:
    services = running.deployment
    (plane,) = services.planes
    waiting.until(lambda: services.wrong() == {}, "all to be well")
    try:
        plane.beat.kill()
        waiting.until(lambda: set(services.wrong()) == {"beat.ticking"}, "the beat to be missed")
        plane.worker.kill()
        waiting.until(
            lambda: set(services.wrong()) == {"beat.ticking", "workers.alive"},
            "the worker to be missed",
        )
    finally:
        plane.start()
    waiting.until(lambda: services.wrong() == {}, "all to be well again")


def _silence(services: Deployment, node_id: str) -> None:
    """One node says nothing any more, until that is seen, and nothing else is."""
    begun = _now(services)
    faults = services.home / "nodes" / "faults.json"
    faults.write_text(json.dumps({node_id: {"silent": True}}), encoding="utf-8")
    try:
        waiting.until(lambda: services.sql(_SILENCE, begun), "its silence to be seen")
        assert services.sql(_SILENCE, begun) == [("node.disconnected", f"node/{node_id}")]
    finally:
        faults.unlink()
    waiting.until(
        lambda: services.sql(_CONDITION, node_id) == [("Connected",)], "its return to be seen"
    )


def _clock_of(server: Server) -> float:
    """By how many seconds a server's clock differs from another's here."""
    said = httpx2.get(f"{server.url}/healthz", trust_env=False).headers["Date"]
    here = email.utils.formatdate(usegmt=True)
    wrong, right = (email.utils.parsedate_to_datetime(each) for each in (said, here))
    return (wrong - right).total_seconds()


def _flap(services: Deployment) -> None:
    """The broker dies again and again, with hints under way and workers that come back to it."""
    for _ in range(FLAPS):
        time.sleep(FLAP_SECONDS)
        services.valkey.kill()
        services.valkey.start()


def _broker(services: Deployment) -> "redis.Redis":
    return redis.Redis.from_url(services.redis_url)


def _listeners(services: Deployment) -> bool:
    broker = _broker(services)
    return bool(broker.pubsub_numpat() or broker.pubsub_channels())


def _unavailable(tally: dict[str, int]) -> int:
    return sum(count for name, count in tally.items() if name.endswith((" 503", " lost")))


def _now(services: Deployment) -> datetime:
    ((now,),) = services.sql("SELECT compute_now()")
    assert isinstance(now, datetime)
    return now


def _in_seconds(services: Deployment, seconds: int) -> int:
    return int(_now(services).timestamp() * 1_000) + seconds * 1_000


def _state(services: Deployment, reservation_id: str) -> str:
    ((state,),) = services.sql("SELECT state FROM reservations WHERE id = %s", reservation_id)
    return str(state)
