"""Why a reservation ended, in words: the codes of its ``reason``, the same wherever people read."""

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "release": "it was given back",
    "expired": "its time ran out",
    "lease-lapsed": "its lease was not renewed",
    "no-show": "nothing used it",
    "preempted": "it gave way to others",
    "denied": "a policy or a person denied it",
    "bind-failed": "no node could bind it",
    "missed": "it could not be booked in time",
    "skipped": "it was skipped in its series",
    "series-cancelled": "its series was cancelled",
}


def in_words(reason: str | None) -> str:
    """The reason as a clause; a code without words, as it is; nothing for none."""
    return WORDS.get(reason or "", reason or "")
