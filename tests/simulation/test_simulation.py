"""The seeded simulation in the suite: a few seeds run clean, and each guard is missed when it goes.

``make simulate SEEDS=1000`` runs more; docs/simulation.md says what is simulated.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest
from django.db import connection

from bettercompute import clock
from bettercompute.coordination import leases, workqueue
from outbox import reader
from tests.simulation import report, world
from tests.simulation.shrink import Budget
from tests.simulation.simulation import Result, Simulation
from tests.support import invariants, races

pytestmark = pytest.mark.django_db(transaction=True)

STEPS = 150


@pytest.fixture(autouse=True)
def _prepared() -> Iterator[None]:
    """The test's database, as a simulation wants it."""
    world.prepare()
    yield
    clock.follow_sim_clock()


@pytest.mark.rule("C1", "C16", "C25", "C26", "C27", "C28", "C30", "C33")
@pytest.mark.parametrize("seed", [1, 2])
def test_every_promise_holds_after_every_step_and_at_rest(seed):
    result = Simulation(seed).run(STEPS)
    assert result.failure is None, "\n".join(result.lines)
    assert result.steps == STEPS


def test_a_seed_says_everything_in_another_process_and_database_too():
    here = report.summary(Simulation(3).run(40))
    command = [sys.executable, "-m", "tests.simulation", "--here", "--seed=3", "--steps=40"]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1] == here


def test_other_seeds_have_other_histories():
    histories = {Simulation(seed).run(10, rests=False).history for seed in (4, 5)}
    assert len(histories) == 2


@pytest.mark.rule("C30")
def test_without_the_epoch_in_the_fence_a_zombie_is_seen(monkeypatch):
    races.without(monkeypatch, leases.LEASES, "fence", " AND expires_at > compute_now()")
    own = "AND owner = %(owner)s::text AND epoch = %(epoch)s::bigint"
    races.without(monkeypatch, leases.LEASES, "fence", own)
    weights = {"worker": 20, "pulse": 5, "web": 3, "clock": 8}
    assert _first_failure(range(2, 20), weights).kind == "zombie"


@pytest.mark.rule("C26")
def test_without_the_generation_a_wake_up_is_seen_to_be_thrown_away(monkeypatch):
    for statement in ("finish", "postpone"):
        races.without(monkeypatch, workqueue.WORKQUEUE, statement, "AND gen = %(gen)s::bigint")
    weights = {"worker": 20, "web": 20, "gateway": 5, "network": 10, "clock": 4}
    assert _first_failure(range(1, 20), weights).kind == "wake-up"


@pytest.mark.rule("C21")
def test_without_the_horizon_an_event_is_never_told(monkeypatch):
    horizon = "WHERE o.txid < pg_snapshot_xmin(pg_current_snapshot())\n   AND"
    texts = reader.EVENTS.statements.texts
    assert horizon in texts["read"]
    monkeypatch.setitem(texts, "read", texts["read"].replace(horizon, "WHERE"))
    weights = {"straggler": 12, "worker": 12, "web": 6, "clock": 4}
    assert _first_failure(range(1, 20), weights).kind in {"untold", "behind"}


@pytest.mark.rule("C9")
@pytest.mark.usefixtures("_without_exclusion")
def test_without_the_exclusion_constraint_two_hold_one_device_and_a_short_history_shows_it(
    monkeypatch,
):
    others = [check for check in invariants.CHECKS if check.name != "schema.guard"]
    monkeypatch.setattr(invariants, "CHECKS", tuple(others))
    # Races are likeliest while there is something to race for: many short runs.
    # Gateways have nothing to do with it, so there is something to leave out.
    weights = {"web": 20, "worker": 1, "gateway": 3, "network": 3}
    result = _first_failure(range(112, 180), weights, steps=60)
    assert result.kind == "bookings.overlap"
    shorter = report.shortened(result, Budget(seconds=60, tries=8))
    assert shorter.kind == result.kind
    assert shorter.steps < result.steps


@pytest.fixture
def _without_exclusion(transactional_db: None) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE conname = 'booking_no_overlap'"
        )
        (definition,) = cursor.fetchone()
        cursor.execute("ALTER TABLE device_bookings DROP CONSTRAINT booking_no_overlap")
        yield
        cursor.execute("DELETE FROM device_bookings")
        cursor.execute(
            f"ALTER TABLE device_bookings ADD CONSTRAINT booking_no_overlap {definition}"
        )


def _first_failure(seeds: range, weights: Mapping[str, float], *, steps: int = 300) -> Result:
    """With those actors only that the guard is there for, a few seeds are enough."""
    for seed in seeds:
        result = Simulation(seed, weights=weights).run(steps, rests=False)
        if result.failure:
            return result
    raise AssertionError(f"none of {len(seeds)} seeds misses the guard")
