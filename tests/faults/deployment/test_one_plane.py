"""One control plane: well, without its database for a while, its worker killed (C39, C40).

Under load nothing is half done and nothing is lost.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from tests.support.deployment import deployment, trial, waiting
from tests.support.deployment.deployment import Deployment
from tests.support.deployment.trial import Recovery, Trial
from tests.support.history.clients import Load

OUTAGE_SECONDS = 30.0
REFUSAL_SECONDS_MAX = 20.0  # of a whole minute that a client would bear; it takes milliseconds

Report = Callable[[Recovery], None]

_SILENCE = (
    "SELECT type, subject FROM outbox WHERE type IN ('node.disconnected', 'node.unreachable')"
)
_LEASES = "SELECT name, owner, epoch FROM leases ORDER BY name"
_LIVE_LEASES = (
    "SELECT name, owner, epoch FROM leases WHERE expires_at > compute_now() ORDER BY name"
)
_HELD = "SELECT state, lease_until FROM reservations WHERE id = %s"


@pytest.fixture(scope="module")
def running() -> Iterator[Trial]:
    """One control plane on a PostgreSQL that keeps what it acknowledged."""
    with deployment.started(durable=True) as started, trial.of(started) as made:
        yield made


@pytest.mark.rule("C39")
def test_a_live_system_keeps_every_promise_and_says_who_leads(running: Trial) -> None:
    services = running.deployment
    told: dict[str, str] = {}

    def all_is_well() -> bool:
        nonlocal told
        told = services.wrong()
        return told == {}

    try:
        waiting.until(all_is_well, "all to be well", pause=1.0)
    except AssertionError as late:
        raise AssertionError(told) from late
    assert services.findings() == []
    (plane,) = services.planes
    leases: list[dict[str, Any]] = services.client(who="olga").get("/api/v1/leases").json()["items"]
    assert {lease["note"].rpartition(" ")[2] for lease in leases if lease["held"]} >= {
        str(plane.worker.pid)
    }
    assert [lease["name"] for lease in leases if not lease["held"]] == []


@pytest.mark.rule("C1", "C33", "C38", "C40")
def test_postgresql_stopped_for_half_a_minute_under_load(running: Trial, report: Report) -> None:
    services = running.deployment
    alice = services.client()
    leases = services.sql(_LEASES)
    with running.load(seed=1) as load:
        # Its lease is shorter than the outage: the outage must not count.
        held = running.reserve("held", leaseSeconds=int(OUTAGE_SECONDS) - 1)
        ((_, lapses),) = services.sql(_HELD, held["id"])
        services.postgres.stop()
        until = time.monotonic() + OUTAGE_SECONDS
        _refuses(services, alice)
        # Of any kind: clients that hold all they may make nothing new, and can give nothing back.
        waiting.until(lambda: _refusals(load) >= 5, "the load to be refused")
        time.sleep(max(0.0, until - time.monotonic()))
        since = time.monotonic()
        services.postgres.start()
        recovery = running.recovered("PostgreSQL stopped for 30 s under load", since)
        # With the API's first beat and the next look; until then it is not judged at all.
        waiting.until(
            lambda: services.sql(_HELD, held["id"])[0][1] > lapses, "the outage to be given back"
        )
    ((state, lapses_now),) = services.sql(_HELD, held["id"])
    assert state == "active"
    assert (lapses_now - lapses).total_seconds() > OUTAGE_SECONDS - 5.0
    running.prove()
    report(recovery)
    assert load.tally["create lost"] == 0  # each was answered
    assert services.sql(_LIVE_LEASES) == leases  # nobody else leads, in no other term
    assert services.sql(_SILENCE) == []


@pytest.mark.rule("C1", "C40")
def test_postgresql_killed_under_load(running: Trial, report: Report) -> None:
    services = running.deployment
    with running.load(seed=2):
        services.postgres.kill()
        time.sleep(1.0)
        since = time.monotonic()
        services.postgres.start()
        recovery = running.recovered("PostgreSQL killed by SIGKILL under load", since)
    running.prove()
    report(recovery)
    assert services.sql(_SILENCE) == []


@pytest.mark.rule("C39")
def test_a_database_that_hangs_makes_no_probe_hang(running: Trial) -> None:
    services = running.deployment
    (plane,) = services.planes
    services.postgres.pause()
    try:
        for server in (plane.web, plane.gateway):
            # The client itself gives up long before a hung probe would answer.
            assert server.status("/readyz") == 503
            assert server.status("/healthz") == 200
    finally:
        services.postgres.resume()
    for server in (plane.web, plane.gateway):
        waiting.until(lambda server=server: server.status("/readyz") == 200, "it to be ready")


@pytest.mark.rule("C1", "C26", "C28", "C40")
@pytest.mark.case(34)
def test_a_worker_killed_between_its_commit_and_the_queue_s_acknowledgement(
    running: Trial, report: Report
) -> None:
    services = running.deployment
    (plane,) = services.planes
    plane.worker.stop()
    with running.load(seed=13):
        plane.worker.start(wait=False, environment={"DEPLOYMENT_DIES_AT": "work.reconciled"})
        waiting.until(plane.worker.has_ended, "the worker to kill itself")
        # It is done, and the queue does not know: whoever comes next does it again.
        assert services.sql("SELECT 1 FROM work_queue WHERE claimed_until IS NOT NULL")
        since = time.monotonic()
        plane.worker.start(wait=False)
        recovery = running.recovered("worker killed between commit and acknowledgement", since)
    running.prove()
    report(recovery)
    assert plane.worker.alive()


def _refusals(load: Load) -> int:
    return sum(count for told, count in load.tally.items() if told.endswith(" 503"))


def _refuses(services: Deployment, alice: httpx2.Client) -> None:
    """While there is no database, each answer is quick, says so, and says when to try again."""
    (plane,) = services.planes
    assert plane.web.status("/healthz") == plane.gateway.status("/healthz") == 200
    assert plane.web.status("/readyz") == plane.gateway.status("/readyz") == 503
    for path in ("/api/v1/reservations", "/api/v1/pools", "/", "/login"):
        begun = time.monotonic()
        answer = alice.get(path, follow_redirects=True)
        assert answer.status_code in {200, 503}, (path, answer.status_code, answer.text[:500])
        assert time.monotonic() - begun < REFUSAL_SECONDS_MAX
        if answer.status_code == 503:
            assert answer.headers["Retry-After"], path
    assert answer.headers["X-Request-Id"]
