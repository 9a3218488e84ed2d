"""Waiting for real processes, which no clock of ours drives."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_SECONDS = 0.1
WITHIN_SECONDS = 120.0


def until(
    condition: Callable[[], T],
    what: str,
    within: float = WITHIN_SECONDS,
    *,
    pause: float = PAUSE_SECONDS,
) -> T:
    """Wait until the condition is met and answer what it answered; the deadline is generous.

    ``pause`` is between two looks: one that costs more than a statement wants a longer one.
    """
    deadline = time.monotonic() + within
    while not (met := condition()):
        assert time.monotonic() < deadline, f"waited {within:.0f} s in vain for {what}"
        time.sleep(pause)
    return met


def how_long(condition: Callable[[], object], what: str, within: float = WITHIN_SECONDS) -> float:
    """Wait until the condition is met, and answer the seconds it took."""
    begun = time.monotonic()
    until(condition, what, within)
    return time.monotonic() - begun
