"""Histories of a cloud that keeps its promises are accepted; each of them, spoilt, is rejected."""

import random

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from tests.support.history import checker
from tests.support.history.anomalies import Kind
from tests.unit.history import cloud
from tests.unit.history.drafts import Draft, Unspoilable
from tests.unit.history.spoiling import SPOILERS

SEEDS = st.integers(0, 2**32 - 1)
MANY = settings(max_examples=50, deadline=None)
SOME = settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@MANY
@given(SEEDS)
def test_what_a_correct_cloud_answers_is_accepted(seed: int) -> None:
    history, end = cloud.history(seed)
    assert list(map(str, checker.check(history, end))) == []
    assert list(map(str, checker.check(history))) == []


@pytest.mark.parametrize("kind", SPOILERS)
@SOME
@given(seed=SEEDS)
def test_whoever_breaks_one_promise_is_rejected(kind: Kind, seed: int) -> None:
    rng = random.Random(seed)
    draft = Draft.of(rng, *cloud.history(seed, operations=60))
    try:
        SPOILERS[kind](draft)
    except Unspoilable:
        reject()
    found = checker.check(draft.history(), draft.final)
    assert kind in {anomaly.kind for anomaly in found}, list(map(str, found))
