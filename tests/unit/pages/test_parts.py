"""The small things that pages are made of."""

import pytest

from bettercompute.pages import parts


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("must not be blank", "Must not be blank."),
        ("at most 4096.", "At most 4096."),
        ("GPUs only", "GPUs only."),
        ("", ""),
    ],
)
def test_a_sentence_has_a_capital_and_one_full_stop(words: str, printed: str) -> None:
    assert parts.sentence(words) == printed
