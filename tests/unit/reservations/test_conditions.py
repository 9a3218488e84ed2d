import pytest

from reservations import conditions
from reservations.conditions import ConditionType


@pytest.mark.rule("R23")
def test_since_moves_only_when_the_reason_does():
    first = conditions.put([], ConditionType.DEGRADED, reason="A", message="a", now_ms=1)
    same = conditions.put(first, ConditionType.DEGRADED, reason="A", message="b", now_ms=2)
    other = conditions.put(same, ConditionType.DEGRADED, reason="B", message="b", now_ms=3)
    assert [c[0]["since"] for c in (first, same, other)] == [1, 1, 3]
    assert same[0]["message"] == "b"


@pytest.mark.rule("R23")
def test_there_is_one_of_each_type_and_clearing_takes_only_that():
    both = conditions.put(
        conditions.put([], ConditionType.DEGRADED, reason="A", message="", now_ms=1),
        ConditionType.ENDING_SOON,
        reason="B",
        message="",
        now_ms=2,
    )
    again = conditions.put(both, ConditionType.DEGRADED, reason="C", message="", now_ms=3)
    assert sorted(c["type"] for c in again) == ["Degraded", "EndingSoon"]
    left = conditions.clear(again, ConditionType.DEGRADED)
    assert [c["type"] for c in left] == ["EndingSoon"]


def test_the_list_given_is_left_as_it_was():
    before = conditions.put([], ConditionType.DEGRADED, reason="A", message="", now_ms=1)
    conditions.put(before, ConditionType.DEGRADED, reason="B", message="", now_ms=2)
    assert before[0]["reason"] == "A"
