"""``make simulate SEED=7 STEPS=300``, or ``SEEDS=1000 JOBS=2`` for a range.

Each job has services of its own: the horizon of the outbox is a whole cluster's, so two simulations
in one cluster would see each other.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import django

STEPS = 300
SHRINK_SECONDS = 60.0


def main() -> int:
    """Run here, or start the jobs that do."""
    arguments = _arguments()
    if not arguments.here:
        return _start_jobs(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    with _database():
        return _run(arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED") or 1))
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS") or STEPS))
    parser.add_argument("--seeds", type=int, default=int(os.environ.get("SEEDS") or 1))
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS") or 1))
    parser.add_argument("--replay", type=Path, default=os.environ.get("REPLAY") or None)
    parser.add_argument("--history", action="store_true", default=bool(os.environ.get("HISTORY")))
    parser.add_argument("--shrink-seconds", type=float, default=SHRINK_SECONDS)
    parser.add_argument("--every", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _start_jobs(arguments: argparse.Namespace) -> int:
    """Share the seeds out, every n-th to each job; answers 1 if one failed."""
    jobs = max(1, min(arguments.jobs, arguments.seeds))
    begun = time.monotonic()
    started = [_start_job(arguments, number, jobs) for number in range(jobs)]
    readers = [threading.Thread(target=_pass_on, args=(job.stdout,)) for job in started]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    failed = [job.wait() for job in started]
    if arguments.seeds > 1:
        seconds = time.monotonic() - begun
        seen = f"{arguments.seeds} seeds from {arguments.seed} in {seconds:.0f} s"
        print(f"{seen}: {'FAILED' if any(failed) else 'all clean'}")
    return max(failed)


def _start_job(arguments: argparse.Namespace, number: int, jobs: int) -> "subprocess.Popen[str]":
    count = len(range(number, arguments.seeds, jobs))
    command = [sys.executable, "-m", "bettercompute.embedded.run_with", "--"]
    command += [sys.executable, "-m", "tests.simulation", "--here", f"--every={jobs}"]
    command += [f"--seed={arguments.seed + number}", f"--seeds={count}"]
    command += [f"--steps={arguments.steps}", f"--shrink-seconds={arguments.shrink_seconds}"]
    command += [f"--replay={arguments.replay}"] if arguments.replay else []
    command += ["--history"] if arguments.history else []
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _pass_on(lines: "IO[str] | None") -> None:
    for line in lines or ():
        sys.stdout.write(line)
        sys.stdout.flush()


@contextmanager
def _database() -> Iterator[None]:
    """A database of our own, migrated and with simulated time; gone afterwards."""
    from django.core.management import call_command
    from django.db import connection

    from tests.simulation import world

    name = f"simulation_{os.getpid()}"
    settings = connection.settings_dict
    maintenance = settings["NAME"]

    def execute(statement: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)
        connection.close()

    execute(f"CREATE DATABASE {name}")
    settings["NAME"] = name
    try:
        call_command("migrate", verbosity=0)
        world.prepare()
        yield
    finally:
        connection.close()
        settings["NAME"] = maintenance
        execute(f"DROP DATABASE {name} WITH (FORCE)")


def _run(arguments: argparse.Namespace) -> int:
    import logging

    from tests.simulation import report
    from tests.simulation.choices import Choice
    from tests.simulation.simulation import Simulation

    logging.getLogger().handlers[:] = [
        logging.NullHandler()
    ]  # what is logged is checked, not shown
    replay = None
    if arguments.replay:
        lines = Path(arguments.replay).read_text(encoding="utf-8").split()
        replay = [Choice.parse(line) for line in lines]
    failures, steps = 0, 0
    for number in range(arguments.seeds):
        seed = arguments.seed + number * arguments.every
        result = Simulation(seed).run(arguments.steps, replay=replay)
        steps += result.steps
        if arguments.history:
            print("\n".join(result.lines))
        if result.failure:
            failures += 1
            report.explain(result, steps=arguments.steps, seconds=arguments.shrink_seconds)
        print(report.summary(result), flush=True)
    if arguments.seeds > 1:
        print(f"{arguments.seeds} seeds, {steps} steps, {failures} failed", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
