"""Who takes the next step, and with what chance: drawn from the seed, or read from a file."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

FAULTY = 0.12  # how often something goes wrong in a step

# How often which actor is chosen.
WEIGHTS = {
    "web": 32,
    "operator": 3,
    "worker": 22,
    "pulse": 4,
    "gateway": 14,
    "network": 18,
    "agent": 5,
    "clock": 12,
    "kill": 3,
    "silence": 0.7,
    "outage": 0.7,
    "straggler": 4,
    "sink": 0.4,
    "holds": 0.4,
}
MOODS = (0.3, 1, 1, 1, 3)  # by what a seed may multiply each of these


@dataclass(frozen=True, slots=True)
class Choice:
    """Who takes the next step; the seed decides how."""

    kind: str
    actor: str
    seed: int
    faulty: bool = False

    def __str__(self) -> str:
        return f"{self.kind}:{self.actor}:{self.seed}{'!' if self.faulty else ''}"

    @classmethod
    def parse(cls, text: str) -> "Choice":
        """A choice from its text."""
        kind, actor, seed = text.split(":")
        return cls(kind, actor, int(seed.rstrip("!")), faulty=seed.endswith("!"))


def chosen(
    seed: int,
    steps: int,
    candidates: Mapping[str, Sequence[str]],
    weights: Mapping[str, float] | None = None,
) -> Iterator[Choice]:
    """So many choices; by default in the mood of the seed: one is all clock, one all network."""
    rng = random.Random(f"choices {seed}")
    moods = {kind: weight * rng.choice(MOODS) for kind, weight in WEIGHTS.items()}
    weights = weights or moods
    for _ in range(steps):
        kind = rng.choices(list(weights), list(weights.values()))[0]
        actor = rng.choice(candidates.get(kind, [kind]))
        yield Choice(kind, actor, rng.getrandbits(48), rng.random() < FAULTY)
