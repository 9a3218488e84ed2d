"""Children of the supervisor: none survives it, none is lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from bettercompute.embedded import processes
from bettercompute.embedded.processes import Child, Farewell

STUBBORN = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('armed', flush=True)\n"
    "time.sleep(60)\n"
)


def child_of(tmp_path: Path, program: str, **circumstances: str) -> Child:
    return Child(
        argv=[sys.executable, "-c", program],
        log=tmp_path / "log",
        env={**os.environ, **circumstances},
        cwd=tmp_path,
    )


def eventually(condition: Callable[[], bool], *, seconds: float = 60) -> None:
    """Wait for real processes, which no clock of ours drives."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_a_child_writes_to_its_log_and_leads_a_session_of_its_own(tmp_path: Path) -> None:
    process = processes.spawn(child_of(tmp_path, "import os; print('sid', os.getsid(0))"))

    assert process.wait(10) == 0
    assert (tmp_path / "log").read_text() == f"sid {process.pid}\n"


def test_a_child_that_ignores_the_first_signal_gets_the_next_one(tmp_path: Path) -> None:
    process = processes.spawn(child_of(tmp_path, STUBBORN))
    eventually(lambda: "armed" in (tmp_path / "log").read_text())

    processes.stop([(process, Farewell((signal.SIGTERM, signal.SIGINT), seconds=0.3))])

    assert process.returncode not in (0, -signal.SIGKILL)  # it ended by KeyboardInterrupt


def test_a_child_that_ignores_every_signal_is_killed_in_time(tmp_path: Path) -> None:
    process = processes.spawn(child_of(tmp_path, STUBBORN))
    eventually(lambda: "armed" in (tmp_path / "log").read_text())

    started = time.monotonic()
    processes.stop([(process, Farewell((signal.SIGTERM,), seconds=0.3))])

    assert process.returncode == -signal.SIGKILL
    assert time.monotonic() - started < 30  # its sleep of a minute was cut short


def test_grandchildren_of_a_killed_run_are_found_by_their_mark(tmp_path: Path) -> None:
    mark = str(tmp_path)
    program = (
        "import subprocess, sys\n"
        "subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "print('started', flush=True)\n"
    )
    parent = processes.spawn(child_of(tmp_path, program, **{processes.MARK: mark}))
    assert parent.wait(10) == 0
    assert [p.name() for p in processes.leftovers(mark=mark, directories=[])] == ["sleep"]

    processes.stop_leftovers(mark=mark, directories=[])

    assert processes.leftovers(mark=mark, directories=[]) == []


def test_processes_with_another_mark_are_left_alone(tmp_path: Path) -> None:
    other = processes.spawn(
        child_of(tmp_path, "import time; time.sleep(60)", **{processes.MARK: f"{tmp_path}2"})
    )
    try:
        processes.stop_leftovers(mark=str(tmp_path), directories=[tmp_path])
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_this_process_and_those_above_it_are_no_leftovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import os, sys\n"
        "from bettercompute.embedded import processes\n"
        "mark = os.environ[processes.MARK]\n"
        "sys.exit(len(processes.leftovers(mark=mark, directories=[])))\n"
    )
    environment = {**os.environ, processes.MARK: str(tmp_path)}

    found = subprocess.run([sys.executable, "-c", program], env=environment, check=False)

    assert found.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals the children of the dead")
def test_the_kernel_stops_a_child_whose_supervisor_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, sys, time\n"
        "from bettercompute.embedded import processes\n"
        "from bettercompute.embedded.processes import Child\n"
        "here = pathlib.Path(sys.argv[1])\n"
        "sleep = Child(argv=['sleep', '60'], log=here / 'log', env=dict(os.environ), cwd=here)\n"
        "print(processes.spawn(sleep).pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    supervisor = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert supervisor.stdout is not None
    child = int(supervisor.stdout.readline())

    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()

    eventually(lambda: not psutil.pid_exists(child))


def test_the_end_of_a_log_becomes_one_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"first\nsecond\n\nthird \xff\nlast\n")

    assert processes.last_lines(tmp_path / "log", count=2) == "third � | last"
    assert processes.last_lines(tmp_path / "absent") == ""
