"""Calendar feeds: addresses that calendar programs read."""

from bettercompute.client import accounts, calls, flows, paging
from bettercompute.client.flows import Api, Flow, Pages
from bettercompute.wire.base import TenantBody
from bettercompute.wire.feeds import Feed, FeedCreated, FeedList


def create(api: Api, *, pool_id: str | None = None) -> Flow[FeedCreated]:
    """A feed of one's reservations and those shared with one, or of a pool's bookings.

    Its ``url`` is in this answer and nowhere else. One whose answer was lost is listed, and can be
    revoked.
    """
    body = {"tenantId": (yield from accounts.tenant_id(api))}
    if pool_id is not None:
        body["poolId"] = pool_id
    return (
        yield from flows.exchange(api, calls.post("/feeds", body, FeedCreated, repeatable=False))
    )


def pages(api: Api, *, page_size: int = 50) -> Pages[Feed]:
    """One's own feeds, newest first; an admin's are all of the tenant's."""
    return paging.pages(api, calls.get("/feeds", FeedList, limit=str(page_size)))


def revoke(api: Api, feed_id: str) -> Flow[Feed]:
    """End it now; doing so again changes nothing."""
    call = calls.post(
        f"/feeds/{calls.segment(feed_id)}/revoke",
        TenantBody(tenant_id=(yield from accounts.tenant_id(api))),
        Feed,
        repeatable=True,
    )
    return (yield from flows.exchange(api, call))
