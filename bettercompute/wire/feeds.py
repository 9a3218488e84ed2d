"""Calendar feeds on the wire."""

from bettercompute.wire.base import AnswerModel, Id, PageQuery, WireModel


class FeedQuery(PageQuery):
    """Which feeds to list."""


class FeedCreate(WireModel):
    """One's own reservations and those shared with one; or, with a pool, that pool's bookings."""

    tenant_id: Id
    pool_id: Id | None = None


class Feed(AnswerModel):
    """A calendar feed, without its address."""

    id: str
    tenant_id: str
    account_id: str
    username: str
    pool_id: str | None
    created_at: int
    last_read_at: int | None
    revoked_at: int | None


class FeedCreated(Feed):
    """A new feed; `url` is shown this once, and whoever has it can read the feed."""

    url: str


class FeedList(AnswerModel):
    """One page, newest first."""

    items: list[Feed]
    next_cursor: str | None
