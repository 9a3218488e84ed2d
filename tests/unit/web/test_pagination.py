"""Cursors."""

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.errors import InvalidInput
from bettercompute.web import pagination
from bettercompute.wire.base import CURSOR_MAX, PageQuery

pytestmark = pytest.mark.rule("A5")


def test_a_cursor_says_what_was_put_into_it() -> None:
    cursor = pagination.encode("tokens", "tok_1", 7)
    assert pagination.decode("tokens", cursor, str, int) == ("tok_1", 7)


def made_up(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "?",
        "ü",
        "x" * 1_025,
        pagination.encode("reservations", "rsv_1"),
        pagination.encode("tokens", 7),
        pagination.encode("tokens", "a", "b"),
        pagination.encode("tokens", "a\x00b"),
        made_up('["tokens","a\\ud800b"]'),
        base64.urlsafe_b64encode(b"[" * 380).decode(),
        base64.urlsafe_b64encode(b"{}").decode(),
    ],
)
def test_a_cursor_that_is_not_of_this_list_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor: not a cursor of this list"):
        pagination.decode("tokens", cursor, str)


@pytest.mark.parametrize("number", [2**63, -(2**63), 10**300])
def test_a_cursor_with_a_number_that_no_column_has_is_refused(number: int) -> None:
    with pytest.raises(InvalidInput, match="cursor: not a cursor of this list"):
        pagination.decode("events", made_up(f'["events",{number}]'), int)


def test_a_cursor_has_room_for_the_longest_name() -> None:
    name = "\N{GRINNING FACE}" * 150
    cursor = pagination.encode("members", name)
    assert len(cursor) <= CURSOR_MAX
    assert pagination.decode("members", cursor, str) == (name,)


def test_a_page_goes_on_where_the_last_one_ended_whatever_is_gone_meanwhile() -> None:
    def page(items: str, cursor: str | None) -> pagination.Page[str]:
        wanted = PageQuery(limit=2, cursor=cursor)
        return pagination.page("letters", items, wanted, by=lambda each: (each,), kinds=(str,))

    first = page("ecadb", None)
    assert first.items == ["a", "b"]
    second = page("ecad", first.next_cursor)
    assert second.items == ["c", "d"]
    assert page("ea", second.next_cursor) == pagination.Page(["e"], None)


@given(st.text(max_size=80))
def test_no_text_raises_anything_else(cursor: str) -> None:
    with contextlib.suppress(InvalidInput):
        pagination.decode("tokens", cursor, str)
