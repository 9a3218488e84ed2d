"""A position is written and read back, and nothing else is taken for one (C23)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.errors import InvalidInput
from outbox import positions
from outbox.positions import Position

pytestmark = pytest.mark.rule("C23")

numbers = st.integers(0, 2**63 - 1)


@given(numbers, numbers)
def test_what_is_written_is_read_back(txid, seq):
    assert positions.parse(str(Position(txid, seq))) == (txid, seq)


@given(st.tuples(numbers, numbers), st.tuples(numbers, numbers))
def test_positions_are_ordered_by_transaction_then_sequence(one, other):
    assert (Position(*one) < Position(*other)) == (one < other)


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "-",
        "1",
        "1-",
        "-1",
        "1-2-3",
        "+1-2",
        "1--2",
        " 1-2",
        "1-2\n",
        "01-2",
        "1-02",
        "1_0-2",
        "0x1-2",
        "1.0-2",
        "\u0661-\u0662",  # digits, but not ours
        f"1-{2**63}",
        f"{2**63}-1",
        "9" * 10_000 + "-1",
        "1-2\x00",
        "'; DROP TABLE outbox; --",
    ],
)
def test_junk_is_refused_as_input(junk):
    with pytest.raises(InvalidInput):
        positions.parse(junk)


@given(st.text())
def test_any_text_is_a_position_or_invalid_input(text):
    try:
        position = positions.parse(text)
    except InvalidInput:
        return
    assert str(position) == text
