"""Starts programs, starts them again when they end, and stops them in the reverse order."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Protocol

from bettercompute.embedded import processes
from bettercompute.embedded.failures import CannotStart
from bettercompute.embedded.interruption import Interruption

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
    def stop_signals(self) -> tuple[Signals, ...]: ...
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
        self._running: list[_Running] = []

    def start(self, program: Program) -> None:
        """Launch the program, and keep it running from now on."""
        process = program.launch()
        self._running.append(_Running(program, process, started=time.monotonic()))

    def wait_until(self, ready: Callable[[], bool], *, what: str, seconds: float) -> None:
        """Tend the programs until something is ready.

        Raises:
            CannotStart: a program keeps ending, or the time is over.
            StopRequested: a stop signal came.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            self.tend()
            for running in self._running:
                _give_up_on(running)
            if time.monotonic() > deadline:
                logs = ", ".join(sorted({str(r.program.log.parent) for r in self._running}))
                raise CannotStart(f"{what} was not ready after {seconds:.0f} s: see {logs}.")
            self._interruption.pause(0.05)

    def tend(self) -> None:
        """Start again what has ended, later and later when it keeps ending."""
        now = time.monotonic()
        for running in self._running:
            if running.restart_at is not None:
                if now >= running.restart_at:
                    self._restart(running, now=now)
            elif running.process.poll() is not None:
                self._plan_restart(running, now=now, reason=_ending(running.process))

    def stop(self, *, seconds: float) -> None:
        """Stop every program that stops by the same signals together, the latest started first."""
        while self._running:
            signals = self._running[-1].program.stop_signals
            batch = [r for r in self._running if r.program.stop_signals == signals]
            self._running = [r for r in self._running if r not in batch]
            processes.stop([r.process for r in batch], signals=signals, seconds=seconds)

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
