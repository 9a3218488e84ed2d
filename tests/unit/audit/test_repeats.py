"""Strangers who are refused again and again do not fill the disk."""

from bettercompute.audit import repeats
from bettercompute.audit.repeats import Repeats


class Hand:
    """The hand on the clock."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_the_same_is_said_once_a_minute_and_how_often_it_was() -> None:
    hand = Hand()
    seen = Repeats(hand)
    assert seen.count("10.0.0.1", "sign-in") == 0
    assert [seen.count("10.0.0.1", "sign-in") for _ in range(5)] == [None] * 5
    assert seen.count("10.0.0.2", "sign-in") == 0, "another is another"
    hand.now += repeats.WINDOW_SECONDS
    assert seen.count("10.0.0.1", "sign-in") == 5
    hand.now += repeats.WINDOW_SECONDS
    assert seen.count("10.0.0.1", "sign-in") == 0


def test_all_together_are_bounded_whoever_they_are() -> None:
    hand = Hand()
    seen = Repeats(hand)
    said = [seen.count(str(number)) for number in range(10 * repeats.PER_WINDOW_MAX)]
    assert len([each for each in said if each is not None]) == repeats.PER_WINDOW_MAX
    hand.now += repeats.WINDOW_SECONDS
    assert seen.count(str(repeats.PER_WINDOW_MAX + 1)) == 1, "it was left out once"


def test_what_is_remembered_is_bounded() -> None:
    seen = Repeats(Hand())
    for number in range(3 * repeats.KEPT_MAX):
        seen.count(str(number))
    assert len(seen._seen) == repeats.KEPT_MAX
