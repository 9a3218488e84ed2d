"""Starts programs, starts them again when they end, and stops them in order."""

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Protocol

from bettercompute.embedded import processes
from bettercompute.embedded.failures import CannotStart
from bettercompute.embedded.interruption import Interruption
from bettercompute.embedded.processes import Farewell

RESTART_SECONDS_MAX = 30.0
# A program that ran this long had started well: the next restart is quick again.
HEALTHY_SECONDS = 60.0
# Failed starts of one program before the whole start is given up.
START_ATTEMPTS_MAX = 3


class Program(Protocol):
    """What can be started, again and again."""

    @property
    def name(self) -> str: ...
    @property
    def log(self) -> Path: ...
    @property
    def farewell(self) -> Farewell: ...
    def launch(self) -> subprocess.Popen[bytes]: ...


@dataclass(slots=True)
class _Running:
    program: Program
    process: subprocess.Popen[bytes]
    started: float
    failures: int = 0
    restart_at: float | None = None


class Supervisor:
    """The programs of one deployment, as direct children of this process."""

    def __init__(self, *, interruption: Interruption, say: Callable[[str], None]) -> None:
        self._interruption = interruption
        self._say = say
        # Programs of one wave stop together, after those of the waves behind it.
        self._waves: list[list[_Running]] = []

    def start(self, programs: Sequence[Program]) -> None:
        """Launch the programs, which stand on those started before, and keep them running."""
        wave: list[_Running] = []
        self._waves.append(wave)
        for program in programs:  # one by one: if a later one fails, these are known
            running = _Running(program, program.launch(), started=time.monotonic())
            wave.append(running)

    def wait_until(
        self, ready: Callable[[], bool], *, what: str, seconds: float, every: float = 0.05
    ) -> None:
        """Tend the programs until something is ready.

        Raises:
            CannotStart: a program keeps ending, or the time is over.
            StopRequested: a stop signal came.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            self.tend()
            for running in self._all():
                _give_up_on(running)
            if time.monotonic() > deadline:
                logs = ", ".join(sorted({str(r.program.log.parent) for r in self._all()}))
                raise CannotStart(f"{what} was not ready after {seconds:.0f} s: see {logs}.")
            self._interruption.pause(every)

    def tend(self) -> None:
        """Start again what has ended, later and later when it keeps ending."""
        now = time.monotonic()
        for running in self._all():
            if running.restart_at is not None:
                if now >= running.restart_at:
                    self._restart(running, now=now)
            elif running.process.poll() is not None:
                self._plan_restart(running, now=now, reason=_ending(running.process))

    def stop(self) -> None:
        """Stop everything, the programs before the services they stand on."""
        while self._waves:
            wave = self._waves.pop()
            processes.stop((r.process, r.program.farewell) for r in wave)

    def _all(self) -> list[_Running]:
        return [running for wave in self._waves for running in wave]

    def _restart(self, running: _Running, *, now: float) -> None:
        try:
            running.process = running.program.launch()
        except (OSError, CannotStart) as error:  # a full disk may have room again later
            self._plan_restart(running, now=now, reason=str(error))
        else:
            running.started, running.restart_at = now, None

    def _plan_restart(self, running: _Running, *, now: float, reason: str) -> None:
        healthy = now - running.started > HEALTHY_SECONDS
        running.failures = 1 if healthy else running.failures + 1
        delay = min(2.0 ** (running.failures - 1), RESTART_SECONDS_MAX)
        running.restart_at = now + delay
        self._say(
            f"{running.program.name} ended ({reason}); "
            f"starting it again in {delay:.0f} s, see {running.program.log}"
        )


def _give_up_on(running: _Running) -> None:
    if running.failures >= START_ATTEMPTS_MAX:
        raise CannotStart(
            f"{running.program.name} cannot start ({_ending(running.process)}): "
            f"{processes.last_lines(running.program.log)} (in {running.program.log})"
        )


def _ending(process: subprocess.Popen[bytes]) -> str:
    if process.returncode is not None and process.returncode < 0:
        return Signals(-process.returncode).name
    return f"exit code {process.returncode}"
