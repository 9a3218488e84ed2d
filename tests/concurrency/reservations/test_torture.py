"""The capacity torture test (C16): attack C9-C14 at once, then ask SQL whether anything broke.

``make torture SEED=7 OPS=20000`` (or SECONDS=300) runs it longer; the seed is printed.
"""

import os
import random
import time

import pytest

from tests.support import invariants, races
from tests.support.storm import STEPS, Storm

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.rule("C9", "C10", "C11", "C12", "C13", "C14", "C16", "C17", "C18", "C19"),
    pytest.mark.case(4, 5, 11, 12),
]

SEED = int(os.environ.get("SEED") or 1)
OPERATIONS = int(os.environ.get("OPS") or 700)
SECONDS = float(os.environ.get("SECONDS") or 0)
OPERATIONS_A_ROUND = 100
CONNECTIONS = 16


def test_torture_of_capacity_leaves_every_invariant_true(clock, record_property):
    record_property("seed", SEED)
    storm = Storm(SEED)
    deadlocks = races.deadlocks()
    steps = random.Random(SEED)
    outcomes: list[races.Outcome] = []
    until = time.monotonic() + SECONDS
    while len(outcomes) < OPERATIONS or time.monotonic() < until:
        number = len(outcomes) // OPERATIONS_A_ROUND
        outcomes += storm.round(number, operations=OPERATIONS_A_ROUND, connections=CONNECTIONS)
        assert invariants.violations() == [], f"seed {SEED}, round {number}"
        clock.advance(steps.choice(STEPS))

    told = f"seed {SEED}, {len(outcomes)} operations:\n{races.tally(outcomes)}"
    print(told)  # pytest shows it with -s, and with a failure
    for outcome in outcomes:
        if outcome.unexpected:
            raise AssertionError(told) from outcome.error
    assert races.deadlocks() == deadlocks, told
    assert invariants.lost(storm.acknowledged) == []

    storm.calm()
    clock.advance("6h")
    storm.calm()
    assert invariants.violations() == [], told
    assert invariants.held() == [], told
