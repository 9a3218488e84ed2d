"""One seeded run: a scheduler chooses, one process takes a step, every promise is checked.

A *choice* names an actor and carries a seed of its own, from which all chance of its step comes. So
a history can be played again with choices left out: the others still mean the same.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bettercompute import failpoints
from bettercompute.failpoints import Failpoint
from tests.simulation import choices, entropy, rest, steps, world
from tests.simulation.choices import Choice
from tests.simulation.entropy import Chance, Time
from tests.simulation.promises import Promises, Violation
from tests.simulation.stage import Stage
from tests.simulation.steps import Steps

FULL_CHECK_EVERY = 25
WARM_UP_TURNS = 3


@dataclass(slots=True)
class Result:
    """What a run came to."""

    seed: int
    choices: list[Choice] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    failure: str | None = None
    rested: bool = False  # whether it came as far as coming to rest

    @property
    def steps(self) -> int:
        """How many choices were played."""
        return len(self.choices)

    @property
    def history(self) -> str:
        """The hash of all that happened."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    @property
    def kind(self) -> str:
        """What sort of failure it is: two runs that fail alike have the same."""
        return (self.failure or "").partition(":")[0]


class Simulation:
    """One run; use it once. Weights other than a seed's own are for controls."""

    def __init__(self, seed: int, *, weights: Mapping[str, float] | None = None) -> None:
        self.result = Result(seed)
        self.time = Time()
        self.chance = Chance(self.time)
        self._weights = weights
        self._closing = ExitStack()

    def run(
        self, steps: int, *, replay: Sequence[Choice] | None = None, rests: bool = True
    ) -> Result:
        """Play so many steps, or these choices; then let everything come to rest, if asked."""
        with self._closing:
            self._open()
            try:
                for _ in range(WARM_UP_TURNS):
                    rest.turn(self)
                    self.time.advance(1)
                for choice in self._chosen(steps) if replay is None else replay:
                    self._step(choice)
                if rests:
                    self.result.rested = True
                    rest.come_to_rest(self)
            except Violation as violation:
                self.result.failure = str(violation)
                self.tell(f"BROKEN {violation}")
        return self.result

    def tell(self, line: str, *more: str) -> None:
        """Write a line of the history."""
        self.result.lines.append(" | ".join([line, *more]))

    def _open(self) -> None:
        self.chance.random.seed(f"world {self.result.seed}")
        self._closing.enter_context(entropy.controlled(self.time, self.chance))
        directory = Path(self._closing.enter_context(tempfile.TemporaryDirectory()))
        self.stage = Stage(self.time, world.make_anew(), directory, self._closing)
        self.steps = Steps(self.stage)
        self.promises = Promises(self.stage)
        self._closing.enter_context(self.promises.listening())
        for point in Failpoint:
            failpoints.arm(point, steps.at_failpoint)
        self._closing.callback(failpoints.disarm)

    def _chosen(self, count: int) -> Iterable[Choice]:
        candidates = self.stage.candidates()
        return choices.chosen(self.result.seed, count, candidates, self._weights)

    def _step(self, choice: Choice) -> None:
        self.chance.random.seed(choice.seed)
        self.result.choices.append(choice)
        told = self.steps.play(choice)
        changes = self.promises.after_step(wrote=self.stage.has_written())
        at = f"{self.time.seconds() - 1_000:.1f}"
        self.tell(f"{self.result.steps:4} +{at} {choice.actor}: {told}", *changes)
        if self.result.steps % FULL_CHECK_EVERY == 0:
            self.promises.all()
