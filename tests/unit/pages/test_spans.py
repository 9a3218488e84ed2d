"""Durations as people write and read them (U2)."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.pages import spans

HOUR = 3_600_000
pytestmark = pytest.mark.rule("U2")


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("8h", 8),
        ("3 days", 72),
        ("1 day and 12 hours", 36),
        ("1d12h", 36),
        ("1d 12h", 36),
        ("90 minutes", 1.5),
        ("1.5 hours", 1.5),
        ("2 weeks", 336),
        ("1h, 30min", 1.5),
        ("PT8H", 8),
        ("p3d", 72),
        ("3600 seconds", 1),
    ],
)
def test_words_symbols_and_iso_mean_the_same(text: str, hours: float) -> None:
    assert spans.parse(text) == hours * HOUR


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("3", "Add a unit to 3: 3h, 3d or 3 minutes"),
        ("0h", "longer than zero"),
        ("", "longer than zero"),
        ("soon", "Try 8h"),
        ("-3h", "Try 8h"),
        ("3 fortnights", "Try 8h"),
        ("1 year", "Try 8h"),
        ("PT", "longer than zero"),
    ],
)
def test_what_is_no_duration_says_what_would_be(text: str, advice: str) -> None:
    with pytest.raises(spans.NotUnderstood, match=advice):
        spans.parse(text)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (72 * HOUR, "3 d"),
        (36 * HOUR, "1 d 12 h"),
        (2_700_000, "45 min"),
        (20_000, "20 s"),
        (5, "0 s"),
    ],
)
def test_the_largest_two_parts_are_read(milliseconds: int, text: str) -> None:
    assert spans.text(milliseconds).replace("\u00a0", " ") == text


def test_parts_that_do_not_follow_each_other_are_left_out() -> None:
    assert spans.text(72 * HOUR + 240_000) == "3\u00a0d"


@given(st.text(max_size=60))
def test_no_text_does_anything_but_parse_or_say_why_not(text: str) -> None:
    with contextlib.suppress(spans.NotUnderstood):
        assert spans.parse(text) > 0
