"""PostgreSQL stopped and killed under load: nothing is half done, nothing is lost (C40)."""

import time
from collections.abc import Callable, Iterator

import httpx2
import pytest

from tests.support.deployment import deployment, trial, waiting
from tests.support.deployment.deployment import Deployment
from tests.support.deployment.trial import Recovery, Trial

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
        waiting.until(lambda: load.tally["create 503"] >= 5, "creates to be refused")
        time.sleep(until - time.monotonic())
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
