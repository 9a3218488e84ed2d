"""Faults at random, one after the other, on two control planes under load.

``make faults SECONDS=300 SEED=7``. After each fault everything that must hold is checked; the first
thing that does not ends the run, with the logs kept. The last line says what was survived.
"""

import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.support.deployment import deployment, trial
from tests.support.deployment.running import Process
from tests.support.deployment.trial import Trial

SECONDS = float(os.environ.get("SECONDS", "120"))
SEED = int(os.environ.get("SEED", "1"))

Fault = Callable[[Trial, random.Random], None]


def postgres_stopped(running: Trial, rng: random.Random) -> None:
    running.deployment.postgres.stop()
    time.sleep(rng.uniform(0.0, 40.0))
    running.deployment.postgres.start()


def postgres_killed(running: Trial, rng: random.Random) -> None:
    running.deployment.postgres.kill()
    time.sleep(rng.uniform(0.0, 5.0))
    running.deployment.postgres.start()


def broker_killed_and_emptied(running: Trial, rng: random.Random) -> None:
    broker = running.deployment.valkey
    broker.kill()
    shutil.rmtree(running.deployment.home / "valkey" / "appendonlydir", ignore_errors=True)
    time.sleep(rng.uniform(0.0, 20.0))
    broker.start()


def process_killed(running: Trial, rng: random.Random) -> None:
    plane = rng.choice(running.deployment.planes)
    _killed(rng.choice(plane.processes), rng)


def plane_killed(running: Trial, rng: random.Random) -> None:
    plane = rng.choice(running.deployment.planes)
    plane.kill()
    time.sleep(rng.uniform(0.0, 25.0))
    plane.start()


def agents_killed(running: Trial, rng: random.Random) -> None:
    _killed(running.deployment.agents, rng)


def process_stopped_and_continued(running: Trial, rng: random.Random) -> None:
    """A process that sleeps through its own lease and wakes up."""
    stopped = rng.choice(rng.choice(running.deployment.planes).processes)
    stopped.pause()
    time.sleep(rng.uniform(1.0, 30.0))
    stopped.resume()


FAULTS: tuple[Fault, ...] = (
    postgres_stopped,
    postgres_killed,
    broker_killed_and_emptied,
    process_killed,
    plane_killed,
    agents_killed,
    process_stopped_and_continued,
)


def _killed(process: Process, rng: random.Random) -> None:
    process.kill()
    time.sleep(rng.uniform(0.0, 10.0))
    process.start()


def main() -> int:
    """Run faults until the time is over; answers the exit code."""
    rng = random.Random(SEED)
    until = time.monotonic() + SECONDS
    survived: Counter[str] = Counter()
    with deployment.started(planes=2, durable=True) as started, trial.of(started) as running:
        try:
            while time.monotonic() < until:
                fault = rng.choice(FAULTS)
                with running.load(seed=SEED * 1_000 + survived.total()):
                    fault(running, rng)
                    recovery = running.recovered(fault.__name__, time.monotonic())
                running.prove()
                survived[fault.__name__] += 1
                print(f"{survived.total():4} {recovery}", flush=True)
        except BaseException:
            kept = Path(tempfile.mkdtemp(prefix=f"better-compute-faults-{SEED}-"))
            shutil.copytree(started.home / "logs", kept, dirs_exist_ok=True)
            shutil.copy(running.recording, kept)
            print(f"SEED={SEED}: failed in fault {survived.total() + 1}; logs and history: {kept}")
            raise
    told = ", ".join(f"{count} {name}" for name, count in sorted(survived.items()))
    print(f"seed={SEED} seconds={SECONDS:.0f} faults={survived.total()}: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
