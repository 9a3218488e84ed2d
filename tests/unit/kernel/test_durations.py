"""Durations: every form that people write is the same number of milliseconds (R4)."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute import durations
from bettercompute.durations import MS_PER_UNIT, InvalidDuration

pytestmark = pytest.mark.rule("R4")

PARTS = st.lists(
    st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(MS_PER_UNIT))), min_size=1, max_size=5
)


@given(st.integers(1, 10**15 - 1))
def test_what_is_stored_is_read_as_it_was(milliseconds: int) -> None:
    assert durations.parse(durations.normalise(milliseconds)) == milliseconds
    assert durations.parse(str(milliseconds)) == durations.parse(milliseconds) == milliseconds


@given(PARTS)
def test_parts_are_added_up(parts: list[tuple[int, str]]) -> None:
    total = sum(number * MS_PER_UNIT[unit] for number, unit in parts)
    text = "".join(f"{number}{unit}" for number, unit in parts)
    if total == 0:
        with pytest.raises(InvalidDuration):
            durations.parse(text)
    else:
        assert durations.parse(f" {text} ") == total


@given(
    st.integers(0, 10**4),
    st.integers(0, 99),
    st.integers(0, 99),
    st.integers(0, 99),
    st.integers(0, 999),
)
def test_iso_8601_says_the_same(days: int, hours: int, minutes: int, seconds: int, ms: int) -> None:
    short = f"{days}d{hours}h{minutes}m{seconds}s{ms}ms"
    iso = f"P{days}DT{hours}H{minutes}M{seconds}.{ms:03}S"
    if days or hours or minutes or seconds or ms:
        assert durations.parse(iso) == durations.parse(short)
        assert durations.parse(iso.replace(".", ",")) == durations.parse(iso)


@given(st.text(max_size=30) | st.text("P0123456789wdhmsTWDHMS.", max_size=12))
def test_any_text_is_a_positive_duration_or_none(text: str) -> None:
    with suppress(InvalidDuration):
        assert durations.parse(text) > 0


@pytest.mark.parametrize("text", ["P1Y", "P1M", "P", "PT", "1h-30m", "-1h", "1.5h", "٣h", "1H"])
def test_what_has_no_fixed_length_or_no_such_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidDuration):
        durations.parse(text)


def test_true_is_no_millisecond() -> None:
    with pytest.raises(InvalidDuration):
        durations.parse(True)
