"""Two control planes, each killed in turn while load runs: the other takes over (C35).

``make planes SECONDS=300 SEED=7`` goes on for so long, kills single processes too, and lets the
agents and the clients find their way each time; the seed is printed.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from tests.support.deployment import deployment, takeover, terms, trial, waiting
from tests.support.deployment.deployment import Plane
from tests.support.deployment.trial import Recovery, Trial

SEED = int(os.environ.get("SEED") or 1)
SECONDS = float(os.environ.get("SECONDS") or 0)
# C30: the lease lapses, then at most the five seconds of a fenced transaction; and the machine may
# be busy. The times measured are printed.
AFTER_LAPSE_MAX = timedelta(seconds=5 + 25)

Report = Callable[[Recovery], None]

_TWICE = """
SELECT subject || ' ' || type || ' ' || count(*)
  FROM outbox
 WHERE type IN ('reservation.created', 'reservation.released', 'reservation.cancelled',
                'reservation.failed')
 GROUP BY subject, type
HAVING count(*) > 1
"""
# A placement makes one allocation on each of its nodes.
_PLACED_TWICE = """
SELECT r.id
  FROM reservations AS r
  JOIN allocations AS a ON a.reservation_id = r.id
 WHERE a.state IN ('placed', 'binding', 'active')
 GROUP BY r.id
HAVING count(*) > greatest(1, (r.request -> 'gang' ->> 'nodes')::int)
 UNION ALL
SELECT r.id
  FROM reservations AS r
 WHERE (SELECT count(*) FROM outbox
         WHERE subject = 'reservation/' || r.id AND type = 'reservation.placed')
     > (SELECT count(*) FROM allocations AS a WHERE a.reservation_id = r.id)
"""
_SHARES = """
SELECT count(*)
  FROM leases
 WHERE starts_with(name, 'shard:') AND expires_at > compute_now()
 GROUP BY owner
"""
SHARDS = 16


@pytest.fixture(scope="module")
def running() -> Iterator[Trial]:
    with deployment.started(planes=2) as started, trial.of(started) as made:
        yield made


@pytest.mark.rule("C22", "C30", "C31", "C35")
def test_either_plane_is_killed_under_load_and_the_other_takes_over(
    running: Trial, report: Report, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", SEED)
    rng = random.Random(SEED)
    both = running.deployment.planes
    killed: set[int] = set()
    with running.load(seed=SEED):
        for victim in rng.sample(both, k=2):
            (survivor,) = [plane for plane in both if plane is not victim]
            wait_for_shares(running)
            time.sleep(rng.uniform(0.0, 2.0))
            killed.add(victim.worker.pid)
            report(lose(running, victim, survivor))
            victim.start()
    running.prove()
    check_that_nothing_was_done_twice(running, killed)


def wait_for_shares(running: Trial) -> None:
    """Until each side has half of the work."""
    half = [(SHARDS // 2,)] * 2
    waiting.until(lambda: running.deployment.sql(_SHARES) == half, "both sides to have a share")


def lose(running: Trial, victim: Plane, survivor: Plane) -> Recovery:
    """SIGKILL to a whole plane; the other has everything of it, agents included."""
    services = running.deployment
    begun, killed_at = time.monotonic(), takeover.database_now(services)
    victim.kill()
    gateway = takeover.gateway_id(services, survivor)
    waiting.until(lambda: takeover.sessions_elsewhere(services, gateway) == 0, "the agents to move")
    moved = time.monotonic() - begun
    taken = takeover.of_worker(services, victim.worker, killed_at=killed_at)
    taken.check(within=AFTER_LAPSE_MAX)
    number = services.planes.index(victim) + 1
    recovery = running.recovered(f"control plane {number} of two killed", begun)
    return Recovery(
        recovery.fault, {"agents moved": moved, "leases taken": taken.seconds, **recovery.seconds}
    )


def check_that_nothing_was_done_twice(running: Trial, killed: set[int]) -> None:
    """Reconciled, placed, told: each once, but for the batch that a killed dispatcher was at."""
    services = running.deployment
    assert services.sql(terms.ACROSS) == []
    assert len(services.sql(terms.BY_OWNER)) > len(killed)  # whoever was killed was replaced
    assert services.sql(_TWICE) == []
    assert services.sql(_PLACED_TWICE) == []
    deliverers: dict[str, list[int]] = {}
    for delivery in services.deliveries():
        deliverers.setdefault(delivery.id, []).append(delivery.pid)
    again = {key: pids for key, pids in deliverers.items() if not set(pids[:-1]) <= killed}
    assert again == {}
    last: dict[int, tuple[int, int]] = {}
    for delivery in services.deliveries():
        assert delivery.position > last.get(delivery.pid, (0, 0)), "a dispatcher went back"
        last[delivery.pid] = delivery.position
