"""What a run came to, for people: one line, or the shortest history that fails."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.simulation import shrink
from tests.simulation.choices import Choice
from tests.simulation.shrink import Budget
from tests.simulation.simulation import Result, Simulation


def summary(result: Result) -> str:
    """The last line of every run: the same seed and steps always print the same."""
    return f"seed={result.seed} steps={result.steps} history={result.history}"


def shortened(result: Result, budget: Budget) -> Result:
    """The shortest run found that fails in the same way."""
    best = result

    def fails(choices: Sequence[Choice]) -> bool:
        nonlocal best
        again = Simulation(result.seed).run(0, replay=choices, rests=result.rested)
        if again.kind != result.kind:
            return False
        best = again
        return True

    shrink.shortest(result.choices, fails, budget)
    return best


def explain(result: Result, *, steps: int, seconds: float) -> None:
    """Print what broke, the shortest history that breaks it, and how to see both again."""
    print(f"BROKEN: seed {result.seed}, step {result.steps}\n{result.failure}\n")
    best = shortened(result, Budget(seconds))
    path = Path(tempfile.gettempdir()) / f"simulation-{result.seed}.choices"
    path.write_text("\n".join(map(str, best.choices)) + "\n", encoding="utf-8")
    print(f"The shortest history found has {best.steps} steps of {result.steps}:")
    print("\n".join(best.lines))
    print(
        f"\nAgain, as it was: make simulate SEED={result.seed} STEPS={steps}"
        f"\nAgain, shortened: make simulate SEED={result.seed} REPLAY={path} HISTORY=1"
    )
