"""Everything that may be done to reservations, against a model written from the documents.

``make model EXAMPLES=100 STEPS=50`` runs more of it, ``SEED=7`` other ones; what fails is then
shortened, which takes minutes.
"""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.model import machine
from tests.support.model.product import Product

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.rule("R8", "R11", "R16", "R17", "R18", "R24", "R26", "R30", "R32", "R33", "R35"),
    pytest.mark.case(4, 5, 13, 14, 15, 22),
]

EXAMPLES = int(os.environ.get("EXAMPLES") or 4)
STEPS = int(os.environ.get("STEPS") or 30)
SEED = int(os.environ.get("SEED") or 2)
IS_LARGER = bool({"EXAMPLES", "STEPS", "SEED"} & os.environ.keys())

# Whoever looks for a fault may wait for the shortest way to it; the suite may not.
PHASES = [Phase.generate, Phase.shrink] if IS_LARGER else [Phase.generate]

#: so that what runs in the suite runs into something, wherever things are placed
SEEN_AT_LEAST = {("active", None), ("released", "expired"), ("released", "release")}


def test_the_product_agrees_with_a_model_of_the_documents() -> None:
    product = Product()

    class Run(machine.Machine):
        pass

    Run.product, Run.limits, Run.seen = product, product.limits(), Counter()
    run_state_machine_as_test(
        seed(SEED)(Run),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            database=None,
            phases=PHASES,
            report_multiple_bugs=False,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print("\n".join(f"{count:6} {what}" for what, count in sorted(Run.seen.items(), key=str)))
    assert IS_LARGER or set(+Run.seen) >= SEEN_AT_LEAST
