"""Why a reservation ended, in words: the codes of its ``reason``, the same wherever people read."""

from collections.abc import Mapping

from bettercompute.wire.endings import BY_OWNER, DENIED, DENIED_BY_OWNER, WITHDRAWN

WORDS: Mapping[str, str] = {
    "release": "it was given back",
    "expired": "its time ran out",
    "lease-lapsed": "its lease was not renewed",
    "no-show": "nothing used it",
    "preempted": "it gave way to others",
    DENIED: "a policy or a limit of the pool refused it",
    DENIED_BY_OWNER: "its owner denied it",
    WITHDRAWN: "its owner withdrew the approval",
    "bind-failed": "no node could bind it",
    "missed": "it could not be booked in time",
    "skipped": "it was skipped in its series",
    "series-cancelled": "its series was cancelled",
}


def by_owner(reason: str | None) -> bool:
    """Whether its owner refused what an agent had asked for."""
    return reason in BY_OWNER


def in_words(reason: str | None) -> str:
    """The reason as a clause; a code without words, as it is; nothing for none."""
    return WORDS.get(reason or "", reason or "")
