"""The shortest history that still fails, as far as some time goes: delta debugging over choices."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.simulation.choices import Choice

Fails = Callable[[Sequence[Choice]], bool]


@dataclass(slots=True)
class Budget:
    """How long to try, and how often."""

    seconds: float
    tries: int = 1_000_000
    _begun: float = field(default_factory=time.monotonic)

    def spend(self) -> bool:
        """Whether one more try may be made."""
        self.tries -= 1
        return self.tries >= 0 and time.monotonic() - self._begun < self.seconds


def shortest(choices: Sequence[Choice], fails: Fails, budget: Budget) -> list[Choice]:
    """Leave out what the failure does not need: whole actors, then large parts, then single steps.

    ``choices`` fail. What comes back fails in the same way, and nothing longer was kept.
    """
    kept = _without_actors(list(choices), fails, budget)
    size = max(1, len(kept) // 2)
    while budget.spend():
        before = len(kept)
        kept = _without_parts(kept, size, fails, budget)
        if size == 1 and len(kept) == before:
            break
        size = max(1, min(size, len(kept)) // 2)
    return _without_faults(kept, fails, budget)


def _without_actors(kept: list[Choice], fails: Fails, budget: Budget) -> list[Choice]:
    """Most actors have nothing to do with it."""
    for who in dict.fromkeys((choice.kind, choice.actor) for choice in kept):
        fewer = [choice for choice in kept if (choice.kind, choice.actor) != who]
        if budget.spend() and fails(fewer):
            kept = fewer
    return kept


def _without_parts(kept: list[Choice], size: int, fails: Fails, budget: Budget) -> list[Choice]:
    """One pass, from the end: what comes late seldom matters."""
    end = len(kept)
    while end > 0 and budget.spend():
        start = max(0, end - size)
        fewer = kept[:start] + kept[end:]
        if fails(fewer):
            kept = fewer
        end = start
    return kept


def _without_faults(kept: list[Choice], fails: Fails, budget: Budget) -> list[Choice]:
    for position, choice in enumerate(kept):
        if choice.faulty and budget.spend():
            tamer = [*kept[:position], replace(choice, faulty=False), *kept[position + 1 :]]
            if fails(tamer):
                kept = tamer
    return kept
