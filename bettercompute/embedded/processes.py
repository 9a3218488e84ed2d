"""Children of the supervisor: how they are started, stopped, and found again after a killed run.

Every child is a direct one, leads a session of its own (so a Ctrl-C reaches only the supervisor,
which then stops them in order), and on Linux gets a signal from the kernel when the supervisor
dies, however it dies. What still survives (a grandchild, another system) carries a mark and is
found by the next start.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import psutil

from bettercompute.embedded.accounts import Account
from bettercompute.embedded.failures import CannotStart

# In the environment of every child and so of its children: whose they are.
MARK = "BETTERCOMPUTE_SUPERVISED_FROM"

_PR_SET_PDEATHSIG = 1
_SERVICE_NAMES = ("postgres", "valkey-server")


@dataclass(frozen=True, slots=True)
class Child:
    """A command and the circumstances it runs under."""

    argv: Sequence[str]
    log: Path
    env: Mapping[str, str]
    cwd: Path
    account: Account | None = None
    on_supervisor_death: signal.Signals = signal.SIGTERM
    pass_fds: Sequence[int] = field(default=())


class AccountArguments(TypedDict, total=False):
    """Arguments of `subprocess` that run a command as another user."""

    user: int
    group: int
    extra_groups: list[int]


def spawn(child: Child, *, stdout: int | None = None) -> subprocess.Popen[bytes]:
    """Start the child; in the main thread only, since the kernel watches the thread that forks."""
    with child.log.open("ab") as log:
        return subprocess.Popen(
            list(child.argv),
            stdin=subprocess.DEVNULL,
            stdout=log if stdout is None else stdout,
            stderr=log,
            cwd=child.cwd,
            env=dict(child.env),
            start_new_session=True,
            pass_fds=tuple(child.pass_fds),
            preexec_fn=die_with_supervisor(child.on_supervisor_death),  # noqa: PLW1509  (one thread)
            **as_account(child.account),
        )


def as_account(account: Account | None) -> AccountArguments:
    """The arguments of `subprocess` that run a command as the account."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


@dataclass(frozen=True, slots=True)
class Farewell:
    """How a process is asked to end: a signal, so much time, the next signal, at last SIGKILL."""

    signals: tuple[signal.Signals, ...]
    seconds: float


def stop(running: Iterable[tuple[subprocess.Popen[bytes], Farewell]]) -> None:
    """Stop the processes at the same time, each in its own way."""
    alive = [pair for pair in running if pair[0].poll() is None]
    attempt = 0
    while alive:
        started = time.monotonic()
        for process, farewell in alive:
            if attempt < len(farewell.signals):
                process.send_signal(farewell.signals[attempt])
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        for process, farewell in alive:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(started + farewell.seconds - time.monotonic(), 0))
        alive = [pair for pair in alive if pair[0].poll() is None]
        attempt += 1


def stop_leftovers(*, mark: str | None, directories: Sequence[Path], seconds: float = 10) -> None:
    """Stop what an earlier run left: processes with its mark, services in its directories.

    Raises:
        CannotStart: one of them does not end even by SIGKILL.
    """
    left = leftovers(mark=mark, directories=directories)
    for process in left:
        # PostgreSQL: SIGINT is the fast shutdown, SIGTERM would wait for its clients.
        gentle = signal.SIGINT if _name(process) == "postgres" else signal.SIGTERM
        with contextlib.suppress(psutil.Error):
            process.send_signal(gentle)
    _, alive = psutil.wait_procs(left, timeout=seconds)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    _, alive = psutil.wait_procs(alive, timeout=seconds)
    if alive:
        pids = ", ".join(str(process.pid) for process in alive)
        raise CannotStart(f"Processes of an earlier run cannot be stopped: {pids}. End them first.")


def leftovers(*, mark: str | None, directories: Sequence[Path]) -> list[psutil.Process]:
    """Processes that carry the mark, and services whose working directory is one of these."""
    homes = {str(directory) for directory in directories}
    ours = {process.pid for process in [psutil.Process(), *psutil.Process().parents()]}
    return [
        process
        for process in psutil.process_iter()
        if process.pid not in ours and _belongs(process, mark=mark, homes=homes)
    ]


def last_lines(log: Path, *, count: int = 3) -> str:
    """The end of a log on one line, for a message."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return " | ".join(line.strip() for line in lines[-count:] if line.strip())


def _belongs(process: psutil.Process, *, mark: str | None, homes: set[str]) -> bool:
    try:
        if process.name() in _SERVICE_NAMES:
            return process.cwd() in homes
        return mark is not None and process.environ().get(MARK) == mark
    except (psutil.Error, OSError):  # gone, or another user's
        return False


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""


def die_with_supervisor(number: signal.Signals) -> Callable[[], None] | None:
    """A hook of the child's that has the kernel signal it when this process dies; Linux only."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    supervisor = os.getpid()

    def arm() -> None:
        # After setuid, which clears it; and it may have died before this line.
        libc.prctl(_PR_SET_PDEATHSIG, int(number))
        if os.getppid() != supervisor:
            os._exit(1)

    return arm
