"""What an entry may say: nothing long, nothing secret, and what PostgreSQL gives back as it was."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bettercompute.audit import bounds
from bettercompute.redaction import REDACTED

TOKEN = "bct_01k9zzzzzzzzzzzzzzzzzzzzzz_" + "a2" * 26
TEXTS = st.text(max_size=20)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(max_size=20)
NESTED = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(TEXTS, LEAVES, max_size=3)


@settings(max_examples=50)
@given(st.dictionaries(TEXTS, NESTED, max_size=3))
def test_whatever_is_said_is_storable_and_comes_back_the_same(detail: dict[str, object]) -> None:
    bounded = bounds.document(detail)
    text = json.dumps(bounded)
    assert json.loads(text) == bounded
    assert "\\u0000" not in text
    assert bounded == bounds.document(bounded), "said again it is the same"


def test_long_texts_and_lists_are_cut() -> None:
    bounded = bounds.document({"text": "x" * 10_000, "list": list(range(1_000))})
    assert len(bounded["text"]) == bounds.TEXT_MAX
    assert bounded["list"] == list(range(bounds.ITEMS_MAX))


def test_depth_ends() -> None:
    deep: dict[str, object] = {"end": 1}
    for _ in range(100):
        deep = {"in": deep}
    assert len(json.dumps(bounds.document(deep))) < 2_000


@pytest.mark.parametrize(
    "secret",
    [
        TOKEN,
        "bce_" + "Ab3_" * 10,
        "whsec_" + "Ab3+" * 10,
        "node_01k9zzzzzzzzzzzzzzzzzzzzzz.7." + "aB3_-" * 8 + "xyz",
        "postgresql://better:hunter2hunter2@db/postgres",
    ],
)
def test_what_looks_like_a_secret_is_blanked_wherever_it_is(secret: str) -> None:
    said = json.dumps(bounds.document({"a": f"it was {secret}!", "b": [{"c": secret}]}))
    assert said.count(REDACTED) == 2
    assert secret not in said
    assert "hunter2" not in said
    assert REDACTED in bounds.text(secret)


def test_what_is_named_like_a_secret_is_blanked() -> None:
    assert bounds.document({"password": "hunter2"}) == {"password": REDACTED}
