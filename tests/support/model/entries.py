"""What the model remembers of one key, and the moments at which something falls due."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.support.model.wish import Wish

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

DRAFT_LIFETIME = 24 * HOUR
CHECK_BEFORE_START = 15 * MINUTE
ENDING_NOTICE = 15 * MINUTE
BIND = 5 * MINUTE
UNBIND = 5 * MINUTE
UNBIND_GIVEN_UP = UNBIND + 30 * SECOND
REPAIR_RETRY = MINUTE
FAILURES_MAX = 3

HOLDING = frozenset({"placed", "binding", "active"})
OVER = frozenset({"released", "failed", "cancelled", "expired", "denied"})


class Said(StrEnum):
    """What an agent last said of an allocation."""

    NOTHING = ""
    BOUND = "bound"
    FAILED = "failed"
    RELEASED = "released"


@dataclass(frozen=True)
class Refusal:
    """An error: its status and its code."""

    status: int
    code: str


NOT_FOUND = Refusal(404, "NOT_FOUND")
DENIED = Refusal(403, "ACCESS_DENIED")
CONFLICT = Refusal(409, "CONFLICT")
INVALID_STATE = Refusal(409, "INVALID_STATE")
OVER_QUOTA = Refusal(409, "QUOTA_EXCEEDED")


@dataclass(frozen=True)
class Who:
    """Somebody who calls, for a tenant."""

    tenant: str
    id: str
    role: str


@dataclass
class Held:
    """An allocation that its node was asked to hold, until the node says that it does not."""

    node: str
    devices: frozenset[str]
    said: Said = Said.NOTHING
    left_at: int | None = None  #: since when it should let go


@dataclass
class Entry:
    """One reservation, a draft included."""

    tenant: str
    owner: str
    key: str
    body: dict[str, Any]
    wish: Wish
    created: int
    id: str = ""
    state: str = "draft"
    start: int | None = None
    end: int | None = None
    duration: int = 0
    lease_until: int | None = None
    reason: str | None = None
    failures: int = 0
    version: int = 0
    live: set[str] = field(default_factory=set)  #: allocations that hold something
    releasing: set[str] = field(default_factory=set)  #: those that a node has yet to let go of
    entered: dict[str, int] = field(default_factory=dict)  #: since when nodes know of them
    failed: set[str] = field(default_factory=set)  #: of the live ones, those that could not bind
    charges: dict[str, int] = field(default_factory=dict)
    extensions: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    @property
    def bind_deadline(self) -> int | None:
        """By when its nodes must have bound it; none while one waits for an earlier holder."""
        if len(self.entered) < len(self.live):
            return None
        return max(self.entered.values()) + BIND

    def is_over(self, now: int) -> bool:
        """Whether its end has come."""
        return self.end is not None and self.end <= now

    def has_lapsed(self, now: int) -> bool:
        """Whether nobody renewed it in time."""
        return self.lease_until is not None and self.lease_until <= now

    def is_checked(self, now: int) -> bool:
        """Whether it is so near its start that what cannot serve is replaced."""
        assert self.start is not None
        return self.state == "placed" and self.start - CHECK_BEFORE_START <= now < self.start
