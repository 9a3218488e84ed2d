"""Everything by way of PgBouncer in transaction mode, with what may happen to it (C24, C40).

Nothing that the product does relies on a session: it may be another one at each transaction.
"""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.deployment import deployment, trial
from tests.support.deployment.trial import Recovery, Trial

Report = Callable[[Recovery], None]


@pytest.fixture(scope="module")
def running() -> Iterator[Trial]:
    """One control plane whose programs know PostgreSQL only by way of the pooler."""
    with deployment.started(pooled=True, durable=True) as started, trial.of(started) as made:
        yield made


@pytest.mark.rule("C24", "C29", "C30", "C40")
@pytest.mark.case(32)
def test_the_pooler_and_then_postgresql_behind_it_are_killed(
    running: Trial, report: Report
) -> None:
    services = running.deployment
    assert services.pooler is not None
    with running.load(seed=21):
        services.pooler.kill()
        time.sleep(2.0)
        since = time.monotonic()
        services.pooler.start()
        again = running.recovered("pooler killed", since)
        services.postgres.kill()
        time.sleep(8.0)  # longer than a client waits for a server
        since = time.monotonic()
        services.postgres.start()
        recovery = running.recovered("behind PgBouncer: PostgreSQL killed and gone for 8 s", since)
    running.prove()
    report(again)
    report(recovery)


@pytest.mark.long  # without the pooler: test_one_plane
@pytest.mark.rule("C24", "C29", "C30", "C40")
@pytest.mark.case(32)
def test_a_worker_killed_behind_the_pooler_leaves_nothing_held(
    running: Trial, report: Report
) -> None:
    services = running.deployment
    (plane,) = services.planes
    with running.load(seed=22):
        plane.worker.kill()
        since = time.monotonic()
        plane.worker.start(wait=False)
        recovery = running.recovered("behind PgBouncer: worker killed", since)
    running.prove()
    report(recovery)
