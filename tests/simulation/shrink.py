"""The shortest history that still fails, as far as some time goes: delta debugging over choices."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.simulation.simulation import Choice

Fails = Callable[[Sequence[Choice]], bool]


def shortest(choices: Sequence[Choice], fails: Fails, *, seconds: float) -> list[Choice]:
    """Leave out what the failure does not need: large parts first, then single choices.

    ``choices`` fail. What comes back fails in the same way, and no longer list was kept.
    """
    deadline = time.monotonic() + seconds
    kept = list(choices)
    size = max(1, len(kept) // 2)
    while time.monotonic() < deadline:
        before = len(kept)
        kept = _without_parts(kept, size, fails, deadline)
        if size == 1 and len(kept) == before:
            break
        size = max(1, min(size, len(kept)) // 2)
    return _without_faults(kept, fails, deadline)


def _without_parts(kept: list[Choice], size: int, fails: Fails, deadline: float) -> list[Choice]:
    """One pass, from the end: what comes late seldom matters."""
    end = len(kept)
    while end > 0 and time.monotonic() < deadline:
        start = max(0, end - size)
        fewer = kept[:start] + kept[end:]
        if fails(fewer):
            kept = fewer
        end = start
    return kept


def _without_faults(kept: list[Choice], fails: Fails, deadline: float) -> list[Choice]:
    for position, choice in enumerate(kept):
        if choice.faulty and time.monotonic() < deadline:
            tamer = [*kept[:position], replace(choice, faulty=False), *kept[position + 1 :]]
            if fails(tamer):
                kept = tamer
    return kept
