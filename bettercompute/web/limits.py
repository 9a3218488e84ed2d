"""How many requests anybody may send (A11).

Who is known is limited by token, or by account in the console's session; who is not, by address.
A known client learns what is left from every answer, in the fields of the IETF's draft
"RateLimit header fields for HTTP": ``RateLimit-Policy`` says the quota and its window in seconds,
``RateLimit`` how much remains and in how many seconds all of it is there again.
"""

from collections.abc import Mapping

from django.conf import settings
from django.http import HttpRequest

from bettercompute.errors import RateLimited
from bettercompute.iam.callers import Identity
from bettercompute.web import addresses, buckets
from bettercompute.web.buckets import Allowance, Limit

#: A quota covers this long, so that a burst is let through that is not kept up.
WINDOW_SECONDS = 2


class TooManyAttempts(RateLimited):
    """Too many attempts without valid credentials come from your address; wait, then try again."""


def requests_of(identity: Identity) -> Limit | None:
    """The limit of who is known; None where there is none: the demo's tokens, or a setting of 0."""
    rate = identity.requests_per_second
    if rate is None:
        rate = settings.REQUESTS_PER_SECOND
    return Limit("requests", rate * WINDOW_SECONDS, WINDOW_SECONDS) if rate else None


def attempts() -> Limit | None:
    """The limit of those without valid credentials, by address; None where it is switched off."""
    quota = settings.ATTEMPTS_PER_MINUTE
    return Limit("attempts", quota, 60) if quota else None


def count(identity: Identity) -> Allowance | None:
    """Count a request of somebody known. None: not limited, or nobody can say.

    Raises:
        RateLimited: it is one too many. The details say after how many seconds there is room.
    """
    limit = requests_of(identity)
    if limit is None:
        return None
    key = identity.token_id or f"session:{identity.account_id}"
    found = buckets.shared().take(key, limit)
    if found is not None and not found.allowed:
        raise Exceeded(found)
    return found


def count_attempt(request: HttpRequest) -> None:
    """Count an attempt that named nobody, or is about to guess a password.

    Raises:
        TooManyAttempts: the address has made more than its share.
    """
    limit = attempts()
    if limit is None:
        return
    whole = addresses.whole(addresses.of_request(request))
    found = buckets.shared().take(f"attempts:{whole}", limit)
    if found is not None and not found.allowed:
        raise TooManyAttempts(retryAfterSeconds=found.retry_seconds)


class Exceeded(RateLimited):
    """You send requests faster than your limit; wait as long as Retry-After says."""

    def __init__(self, allowance: Allowance) -> None:
        limit = allowance.limit
        super().__init__(
            f"You send more than {limit.quota} requests in {limit.window_seconds} seconds;"
            " wait as long as Retry-After says, and spread them out.",
            retryAfterSeconds=allowance.retry_seconds,
            quota=limit.quota,
            windowSeconds=limit.window_seconds,
        )
        self.allowance = allowance


def headers(allowance: Allowance) -> Mapping[str, str]:
    """What the answer says of it."""
    limit = allowance.limit
    return {
        "RateLimit-Policy": f'"{limit.name}";q={limit.quota};w={limit.window_seconds}',
        "RateLimit": f'"{limit.name}";r={allowance.remaining};t={allowance.reset_seconds}',
    }
