"""What a seal covers, as PostgreSQL writes it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.multirange import Multirange
from psycopg.types.range import Range

from bettercompute.audit import sealing


@given(st.sets(st.integers(1, 200), min_size=1).map(sorted))
def test_the_ranges_have_these_numbers_and_no_others(numbers: list[int]) -> None:
    text = sealing.ranges(numbers)
    runs = [run.split(",") for run in text.strip("{}[)").split("),[")]
    found = Multirange([Range(int(start), int(end)) for start, end in runs])
    assert [n for n in range(202) if any(n in run for run in found)] == numbers
    assert all(a.upper < b.lower for a, b in itertools.pairwise(found)), "as few as can be"
    assert sealing.covered(text) == (len(numbers), numbers[-1] + 1)


@pytest.mark.parametrize("members", ["{[5,)}", "{(,5)}", "{[1,3),[5,)}", "{(,)}"])
def test_what_has_no_end_is_no_number_of_entries(members: str) -> None:
    assert sealing.covered(members) == (-1, -1)
