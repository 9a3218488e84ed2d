"""Calendar feeds: made and revoked by their account, read by whoever has the address.

A feed acts as its account at its tenant: an account that has left, or a pool that is no longer open
to the tenant, makes the address one that nobody has.
"""

from dataclasses import dataclass

from django.db import models, transaction

from bettercompute import errors, ids, sql
from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.iam import access, callers
from bettercompute.iam.callers import Caller
from bettercompute.ids import Drawn
from pools import catalogue
from reservations.feeds import addresses
from reservations.feeds.addresses import Address
from reservations.models import CalendarFeed

FEEDS = sql.load(__package__, "feeds")

FEEDS_MAX = 20
READS_PER_HOUR_MAX = 120
RETRY_AFTER_SECONDS = 600


class TooManyFeeds(errors.Conflict):
    """Revoke a calendar feed that nobody reads any more, then make another."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A feed that may be read now, by the one it acts as."""

    id: str
    caller: Caller
    pool_id: str | None


def create(
    caller: Caller, *, pool_id: str | None = None, drawn: Drawn | None = None
) -> tuple[CalendarFeed, str]:
    """A feed for the caller, and the secret part of its address, which is never shown again.

    Raises:
        errors.AccessDenied: an agent asks: whoever has a feed's address reads it without a token.
        errors.NotFound: the caller may not see the pool.
        TooManyFeeds: the caller has as many as one may have.
    """
    access.require_person(caller)
    if pool_id is not None:
        catalogue.access_pool(caller, pool_id)
    address = addresses.of(drawn or ids.drawn("cal"))
    with transaction.atomic():
        made = FEEDS.run(
            "make",
            id=address.feed_id,
            tenant_id=caller.tenant_id,
            account_id=caller.account_id,
            pool_id=pool_id,
            secret_hash=addresses.hashed(address.secret),
            most=FEEDS_MAX,
        )
        if not made:
            raise TooManyFeeds(most=FEEDS_MAX)
        entries.record("compute:feeds:create", Thing("feed", address.feed_id), pool=pool_id)
    return visible(caller).get(pk=address.feed_id), address.text


def visible(caller: Caller) -> "models.QuerySet[CalendarFeed]":
    """The feeds the caller may see: own ones, an admin all of the tenant's."""
    feeds = CalendarFeed.objects.filter(tenant_id=caller.tenant_id)
    if caller.role != "admin":
        feeds = feeds.filter(account_id=caller.account_id)
    return feeds.select_related("account", "pool").order_by("-id")


def opens(caller: Caller, address: Address) -> bool:
    """Whether it is the address of a feed that the caller may see and that is not revoked."""
    found = visible(caller).filter(pk=address.feed_id, revoked_at=None)
    return found.filter(secret_hash=addresses.hashed(address.secret)).exists()


def revoke(caller: Caller, feed_id: str) -> CalendarFeed:
    """End a feed now. One's own; an admin also those of others at the tenant.

    Revoking again changes nothing.

    Raises:
        errors.NotFound: there is no such feed at the caller's tenant, or it is another member's.
    """
    with transaction.atomic(durable=True):
        revoked = FEEDS.run(
            "revoke",
            id=feed_id,
            tenant_id=caller.tenant_id,
            account_id=caller.account_id,
            anyones=caller.role == "admin",
        )
        if revoked:
            entries.record("compute:feeds:revoke", Thing("feed", feed_id))
        return get(caller, feed_id)


def get(caller: Caller, feed_id: str) -> CalendarFeed:
    """A feed that the caller may see.

    Raises:
        errors.NotFound: there is no such feed at the caller's tenant, or it is another member's.
    """
    feed = visible(caller).filter(pk=feed_id).first()
    if feed is None:
        raise errors.NotFound(f"There is no calendar feed {feed_id}, or you may not see it.")
    return feed


def open_(text: str) -> Opened:
    """The feed at an address.

    Raises:
        errors.NotFound: there is none, it is revoked, or whose it is may not read it any more.
        errors.RateLimited: it was read too often within the hour.
    """
    address = addresses.read(text)
    row = None if address is None else FEEDS.one("find", id=address.feed_id)
    matches = address is not None and address.matches(None if row is None else row[0])
    if address is None or row is None or not matches:
        raise _no_feed()
    _, tenant_id, account_id, pool_id = row
    try:
        caller = callers.of_member(account_id, tenant_id)
        if pool_id is not None:
            catalogue.access_pool(caller, pool_id)
    except errors.NotFound:
        raise _no_feed() from None
    if not FEEDS.run("count_read", id=address.feed_id, most=READS_PER_HOUR_MAX):
        raise errors.RateLimited(
            f"This calendar was read {READS_PER_HOUR_MAX} times within an hour.",
            retryAfterSeconds=RETRY_AFTER_SECONDS,
        )
    return Opened(address.feed_id, caller, pool_id)


def _no_feed() -> errors.NotFound:
    return errors.NotFound("There is no calendar at this address, or it was revoked.")
