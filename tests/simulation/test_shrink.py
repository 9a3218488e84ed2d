"""Shortening a history that fails: what is left is what the failure needs, and time is bounded."""

from collections.abc import Sequence

from tests.simulation import shrink
from tests.simulation.choices import Choice
from tests.simulation.shrink import Budget

HISTORY = [Choice(f"kind-{n % 5}", f"actor-{n % 7}", n, n % 3 == 0) for n in range(200)]


def test_what_the_failure_does_not_need_is_left_out():
    def fails(choices: Sequence[Choice]) -> bool:
        return {17, 120, 199} <= {choice.seed for choice in choices}

    kept = shrink.shortest(HISTORY, fails, Budget(seconds=60))
    assert [choice.seed for choice in kept] == [17, 120, 199]
    assert not any(choice.faulty for choice in kept)


def test_a_fault_that_the_failure_needs_stays():
    def fails(choices: Sequence[Choice]) -> bool:
        return any(choice.seed == 120 and choice.faulty for choice in choices)

    kept = shrink.shortest(HISTORY, fails, Budget(seconds=60))
    assert kept == [HISTORY[120]]


def test_a_budget_that_is_spent_ends_it_with_what_still_fails():
    asked = []

    def fails(choices: Sequence[Choice]) -> bool:
        asked.append(len(choices))
        return any(choice.seed == 3 for choice in choices)

    kept = shrink.shortest(HISTORY, fails, Budget(seconds=60, tries=5))
    assert fails(kept)
    assert len(asked) == 6
    assert len(kept) < len(HISTORY)


def test_a_choice_is_read_back_from_its_text():
    assert [Choice.parse(str(choice)) for choice in HISTORY] == HISTORY
