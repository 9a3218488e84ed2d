"""Pages of long tables: no row is ever counted."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.core.paginator import Page, Paginator


class OnwardPaginator(Paginator):  # type: ignore[type-arg]  # not subscriptable at run time
    """Knows the page it is asked for, and whether one follows.

    Counting a table of millions of events takes seconds and tells nobody anything. The rows of one
    page and one more are read instead; ``count`` is what is known from that.
    """

    uncounted = True

    def __init__(self, rows: Any, per_page: int, *, asked: int) -> None:
        super().__init__(rows, per_page)
        self.asked = max(1, asked)

    @cached_property
    def count(self) -> int:
        """The rows up to the end of this page, and one if more follow."""
        return self._before + len(self._found)

    @cached_property
    def _before(self) -> int:
        return (self.asked - 1) * self.per_page

    @cached_property
    def _found(self) -> list[Any]:
        return list(self.object_list[self._before : self._before + self.per_page + 1])

    @property
    def more(self) -> bool:
        """Whether a page follows."""
        return len(self._found) > self.per_page

    def page(self, number: Any) -> Page[Any]:
        """The page that was asked for; nobody asks for another."""
        valid = self.validate_number(number)
        assert valid == self.asked, "made for one page"
        return Page(self._found[: self.per_page], valid, self)


def asked(text: str) -> int:
    """The page number in an address; the first, if it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 1
