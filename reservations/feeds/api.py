"""REST of calendar feeds."""

from django.http import HttpResponse
from rest_framework.request import Request

from bettercompute import clock
from bettercompute.web import pagination, schema
from bettercompute.web.views import ApiView
from bettercompute.wire import feeds as wire
from bettercompute.wire.base import TenantBody
from reservations.feeds import keeping, serving
from reservations.models import CalendarFeed

CURSOR = "feeds"


class FeedsView(ApiView):
    """Calendar feeds of a tenant."""

    @schema.describe(query=wire.FeedQuery, answers={200: wire.FeedList})
    def get(self, request: Request) -> HttpResponse:
        """List one's own calendar feeds; an admin reads all of the tenant's."""
        wanted = self.query(wire.FeedQuery)
        rows = keeping.visible(self.caller(wanted.tenant_id))
        page = pagination.newest(CURSOR, rows, limit=wanted.limit, cursor=wanted.cursor)
        items = [answered(feed) for feed in page.items]
        return self.answer(wire.FeedList(items=items, next_cursor=page.next_cursor))

    @schema.describe(
        body=wire.FeedCreate, answers={201: wire.FeedCreated}, raises=[keeping.TooManyFeeds]
    )
    def post(self, request: Request) -> HttpResponse:
        """Make a calendar feed; its address is in this answer and nowhere else."""
        wanted = self.body(wire.FeedCreate)
        feed, address = keeping.create(self.caller(wanted.tenant_id), pool_id=wanted.pool_id)
        url = serving.url(request._request, address)
        shown = answered(feed).model_dump()
        return self.answer(wire.FeedCreated(**shown, url=url), status=201)


class FeedRevokeView(ApiView):
    """Ending one feed."""

    @schema.describe(body=TenantBody, answers={200: wire.Feed})
    def post(self, request: Request, feed_id: str) -> HttpResponse:
        """Revoke a calendar feed now; doing so again changes nothing."""
        caller = self.caller(self.body(TenantBody).tenant_id)
        return self.answer(answered(keeping.revoke(caller, feed_id)))


def answered(feed: CalendarFeed) -> wire.Feed:
    """A feed on the wire, without its address."""
    return wire.Feed(
        id=feed.pk,
        tenant_id=feed.tenant_id,
        account_id=feed.account_id,
        username=feed.account.username,
        pool_id=feed.pool_id,
        created_at=clock.to_ms(feed.created_at),
        last_read_at=None if feed.last_read_at is None else clock.to_ms(feed.last_read_at),
        revoked_at=None if feed.revoked_at is None else clock.to_ms(feed.revoked_at),
    )
