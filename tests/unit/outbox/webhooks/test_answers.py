"""What a receiver asks for in the head of its answer."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.webhooks import answers

pytestmark = pytest.mark.rule("A6")

NOW = 1_772_442_000  # Mon, 02 Mar 2026 09:00:00 GMT


def _wanted(value: str) -> timedelta | None:
    return answers.retry_after(answers.head(503, [(b"Retry-After", value.encode())]), now=NOW)


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("120", timedelta(minutes=2)),
        (" 0 ", timedelta()),
        ("Mon, 02 Mar 2026 09:02:00 GMT", timedelta(minutes=2)),
        ("Monday, 02-Mar-26 09:02:00 GMT", timedelta(minutes=2)),
        ("Mon Mar  2 09:02:00 2026", timedelta(minutes=2)),
        ("Mon, 02 Mar 2026 08:00:00 GMT", timedelta()),  # past: at once
        ("9999999999", answers.RETRY_AFTER_MAX),
        ("Fri, 31 Dec 9999 23:59:59 GMT", answers.RETRY_AFTER_MAX),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("١٢٠", None),  # digits, but not these
        ("Mon, 99 Mar 2026 09:02:00 GMT", None),
    ],
)
def test_how_long_it_wants_to_be_left_alone(value: str, wait: timedelta | None) -> None:
    assert _wanted(value.encode().decode("latin-1")) == wait


@given(st.text(st.characters(max_codepoint=255), max_size=60))
def test_whatever_it_says_is_a_bounded_wait_or_none(value: str) -> None:
    found = answers.retry_after(answers.Head(503, {"retry-after": value}), now=NOW)
    assert found is None or timedelta() <= found <= answers.RETRY_AFTER_MAX


def test_the_first_of_a_repeated_header_counts() -> None:
    found = answers.head(503, [(b"retry-after", b"1"), (b"Retry-After", b"999")])
    assert answers.retry_after(found, now=NOW) == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("status", "taken"), [(199, False), (200, True), (299, True), (300, False)]
)
def test_only_2xx_takes_a_message(status: int, taken: bool) -> None:
    assert answers.Head(status, {}).taken is taken


@given(st.text(max_size=20), st.integers(min_value=0, max_value=80))
def test_of_a_text_that_is_cut_whole_characters_are_left(text: str, at: int) -> None:
    first = text.encode("utf-8", "replace")[:at]
    found = answers.whole(first, cut=True)
    assert text.encode("utf-8", "replace").decode().startswith(found.decode())
    assert len(first) - len(found) < 4
    assert answers.whole(first, cut=False) == first


def test_signatures_that_come_back_are_not_shown() -> None:
    body = rb'{"one": "v1,ab/c+d=", "escaped": "v1,ab\/c+d=", "other": "v1,xyz="}'
    shown = b'{"one": "v1,[redacted]", "escaped": "v1,[redacted]", "other": "v1,[redacted]"}'
    assert answers.without(["ab/c+d=", "xyz="], of=body) == shown
