"""Lists of the API, which come in pages: one of them, one after the other, or all at once."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from bettercompute.client import accounts, calls, failures, flows
from bettercompute.client.calls import Call
from bettercompute.client.flows import Api, Flow, Pages

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


class Page(Protocol[Item_co]):
    """What every list of the API answers."""

    @property
    def items(self) -> Sequence[Item_co]:
        """This page's part of the list."""

    @property
    def next_cursor(self) -> str | None:
        """Where the next page begins; None on the last."""


def page(
    api: Api, call: Call[Page[Item]], cursor: str | None
) -> Flow[tuple[list[Item], str | None]]:
    """The items of the page at a cursor (None: the first), and the cursor of the next.

    Raises:
        failures.UnexpectedAnswer: the next is this one, so that the list would never end.
    """
    asked = call if cursor is None else calls.with_query(call, [("cursor", cursor)])
    found = yield from flows.exchange(api, asked)
    if cursor is not None and found.next_cursor == cursor:
        raise failures.UnexpectedAnswer("The list has a page that is its own next one.")
    return list(found.items), found.next_cursor


def pages(api: Api, call: Call[Page[Item]], *, platform: bool = False) -> Pages[Item]:
    """What the tenant has of it, page by page; with ``platform``, what all tenants have."""

    def page_at(cursor: str | None) -> Flow[tuple[list[Item], str | None]]:
        tenant_id = None if platform else (yield from accounts.tenant_id_if_named(api))
        whose = [] if tenant_id is None else [("tenantId", tenant_id)]
        return (yield from page(api, calls.with_query(call, whose), cursor))

    return page_at


def whole(api: Api, call: Call[Page[Item]]) -> Flow[list[Item]]:
    """The items of all pages."""
    items, cursor = yield from page(api, call, None)
    while cursor is not None:
        more, cursor = yield from page(api, call, cursor)
        items += more
    return items
