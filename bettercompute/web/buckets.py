"""Token buckets in Valkey, one number each: when the bucket is full again.

A bucket fills at an even rate. Taking from it moves that instant away, and what would move it
further than a whole window is refused. One script on the server's own clock does it all, so that
processes on several hosts share a bucket, and each look costs one round trip. A bucket that is full
does not exist.

Valkey holds nothing that matters (C1): where it is away or slow, nobody is limited. One request in
``PAUSE_SECONDS`` finds that out, and waits ``SECONDS_MAX`` for it; the others do not ask.
"""

import math
import threading
import time
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import redis
import structlog
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

log = structlog.get_logger(__name__)

SECONDS_MAX = 0.1
PAUSE_SECONDS = 5.0
PREFIX = "bettercompute:limit:"

_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window = tonumber(ARGV[2])
local interval = window / tonumber(ARGV[1])
local full_at = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
-- A clock that was set back must not lock anybody out for longer than a window.
full_at = math.min(full_at, now + window)
local after = full_at + interval
local allowed = after <= now + window
if allowed then
  full_at = after
  redis.call('SET', KEYS[1], string.format('%.0f', full_at),
    'PX', math.ceil((full_at - now) / 1000))
end
local left = math.floor((now + window - full_at) / interval)
return {allowed and 1 or 0, left, full_at - now, math.max(after - now - window, 0)}
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """So many in a window, at once or spread over it; ``name`` is what clients read."""

    name: str
    quota: int
    window_seconds: int


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one look at a bucket found."""

    limit: Limit
    allowed: bool
    remaining: int
    #: until the bucket is full
    reset_seconds: int
    #: until there is one again; 0 where it was allowed
    retry_seconds: int


class Breaker:
    """Keeps everybody from asking a server that has just failed; one at a time tries again."""

    def __init__(self, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._pause = pause_seconds
        self._guard = threading.Lock()
        self._again_at: float | None = None

    def admits(self) -> bool:
        """Whether to ask now. Whoever is let through after a pause holds the others back."""
        if self._again_at is None:
            return True
        with self._guard:
            now = time.monotonic()
            if self._again_at is not None and now < self._again_at:
                return False
            self._again_at = now + self._pause
            return True

    def failed(self) -> bool:
        """Hold everybody back for a while; answers whether that is news."""
        with self._guard:
            was_closed = self._again_at is None
            self._again_at = time.monotonic() + self._pause
            return was_closed

    def succeeded(self) -> bool:
        """Let everybody through; answers whether that is news."""
        if self._again_at is None:
            return False
        with self._guard:
            self._again_at = None
            return True


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of one Valkey."""

    url: str
    breaker: Breaker = field(default_factory=Breaker)
    seconds_max: float = SECONDS_MAX
    _client: Any = field(init=False, repr=False)
    _script: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        client = redis.Redis.from_url(
            self.url,
            socket_connect_timeout=self.seconds_max,
            socket_timeout=self.seconds_max,
            retry=Retry(NoBackoff(), 0),
        )
        object.__setattr__(self, "_client", client)
        object.__setattr__(self, "_script", client.register_script(_TAKE))

    def take(self, key: str, limit: Limit) -> Allowance | None:
        """Take one from a bucket; None where Valkey cannot say what is in it."""
        if not self.breaker.admits():
            return None
        try:
            found = self._script(
                keys=[PREFIX + key], args=[limit.quota, limit.window_seconds * 1_000_000]
            )
        except redis.RedisError as error:
            if self.breaker.failed():
                log.warning("limits are off: Valkey cannot be asked", error=str(error)[:200])
            return None
        if self.breaker.succeeded():
            log.info("limits are on again")
        allowed, remaining, reset_micros, retry_micros = found
        return Allowance(
            limit,
            bool(allowed),
            remaining,
            math.ceil(reset_micros / 1_000_000),
            0 if allowed else max(1, math.ceil(retry_micros / 1_000_000)),
        )

    def close(self) -> None:
        """Give its connections back."""
        self._client.close()


@cache
def shared() -> Buckets:
    """Those of this process."""
    return Buckets(settings.REDIS_URL)
