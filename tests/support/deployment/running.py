"""One program of a deployment, in the hands of a test: started, stopped, killed, started again."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import psutil

from bettercompute.embedded import processes
from bettercompute.embedded.processes import Farewell
from bettercompute.embedded.programs import PythonProgram
from tests.support.deployment import waiting

START_SECONDS_MAX = 120.0

# A proxy of the environment is not for addresses of this machine.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Launchable(Protocol):
    """What `bettercompute.embedded` can start."""

    @property
    def log(self) -> Path: ...
    @property
    def farewell(self) -> Farewell: ...
    def launch(self) -> subprocess.Popen[bytes]: ...


class Nursery:
    """Starts every process of a deployment from one thread that lives as long as it does.

    The kernel ends a child when the *thread* that forked it ends; a test's own threads come and go.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nursery")

    def launch(self, program: Launchable) -> subprocess.Popen[bytes]:
        return self._thread.submit(program.launch).result()

    def close(self) -> None:
        self._thread.shutdown()


class Process:
    """A program that may be started again after each end; thread-safe."""

    def __init__(
        self,
        program: Launchable,
        nursery: Nursery,
        *,
        name: str,
        ready: Callable[["Process"], bool] = lambda _: True,
    ) -> None:
        self.name = name
        self.program = program
        self._nursery = nursery
        self._ready = ready
        self._lock = threading.RLock()
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of its first process, which leads the group."""
        assert self._popen is not None, f"{self.name} was never started"
        return self._popen.pid

    def start(self, *, wait: bool = True) -> None:
        """Start it, and wait until it is ready unless told not to."""
        with self._lock:
            assert not self.alive(), f"{self.name} runs already"
            self._popen = self._launch()
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self, within: float = START_SECONDS_MAX) -> None:
        def settled() -> bool:
            assert self.alive(), f"{self.name} ended: {processes.last_lines(self.program.log)}"
            return self._ready(self)

        waiting.until(settled, f"{self.name} to be ready", within)

    def is_ready(self) -> bool:
        return self.alive() and self._ready(self)

    def kill(self) -> None:
        """SIGKILL to its whole process group."""
        with self._lock:
            if self._popen is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._popen.pid, signal.SIGKILL)
                self._popen.wait()

    def stop(self) -> int | None:
        """Stop it as an init system does; answers its exit code."""
        with self._lock:
            if self._popen is None:
                return None
            processes.stop([(self._popen, self.program.farewell)])
            return self._popen.returncode

    def pause(self) -> None:
        """SIGSTOP to every process of it: it holds its connections and answers nothing."""
        for each in self._members():
            with contextlib.suppress(psutil.Error):
                each.suspend()

    def resume(self) -> None:
        for each in self._members():
            with contextlib.suppress(psutil.Error):
                each.resume()

    def alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def has_ended(self) -> bool:
        """Whether it ran and ended by itself or by a signal."""
        return self._popen is not None and self._popen.poll() is not None

    def _launch(self) -> subprocess.Popen[bytes]:
        return self._nursery.launch(self.program)

    def _members(self) -> list[psutil.Process]:
        first = psutil.Process(self.pid)
        return [first, *first.children(recursive=True)]


class PythonProcess(Process):
    """A program of ours, whose environment a test may add to."""

    program: PythonProgram

    def __init__(
        self,
        program: PythonProgram,
        nursery: Nursery,
        *,
        ready: Callable[[Process], bool] = lambda _: True,
    ) -> None:
        super().__init__(program, nursery, name=program.name, ready=ready)
        self.environment: dict[str, str] = {}

    def start(self, *, wait: bool = True, environment: Mapping[str, str] | None = None) -> None:
        """Start it; the environment given is added for this start only."""
        self.environment = dict(environment or {})
        super().start(wait=wait)

    def _launch(self) -> subprocess.Popen[bytes]:
        return self._nursery.launch(self._dressed(self.program))

    def _dressed(self, program: PythonProgram) -> PythonProgram:
        return replace(program, env={**program.env, **self.environment})


class Server(PythonProcess):
    """A program that listens on a port of its own.

    The port stays ours while it is down, and connections are then refused, as by a host whose
    server is gone. (`better-compute up` keeps listening itself instead, so that clients wait.)
    """

    def __init__(self, make: Callable[[int], PythonProgram], nursery: Nursery) -> None:
        """``make`` is given the descriptor of the socket to listen on."""
        self._make = make
        #: Served instead of the product's own ASGI application, from the next start on.
        self.application = ""
        # Bound and never listening: nobody else is given the port, and nobody connects.
        self._claim = _bound(0)
        super().__init__(make(0), nursery, ready=lambda _: self.status("/readyz") == 200)

    @property
    def port(self) -> int:
        number: int = self._claim.getsockname()[1]
        return number

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def status(self, path: str, *, seconds: float = 5.0) -> int:
        """The HTTP status of a GET; 0 where there is no answer."""
        try:
            with _DIRECT.open(self.url + path, timeout=seconds) as answer:
                status: int = answer.status
                return status
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def close(self) -> None:
        """Let the port go."""
        self._claim.close()

    def _launch(self) -> subprocess.Popen[bytes]:
        with _bound(self.port) as listening:
            program = self._dressed(self._make(listening.fileno()))
            if self.application:
                program = replace(program, arguments=[*program.arguments[:-1], self.application])
            return self._nursery.launch(program)


def start_all(wanted: list[Process]) -> None:
    """Start these together, and wait for all of them."""
    for process in wanted:
        process.start(wait=False)
    for process in wanted:
        process.wait_until_ready()


def _bound(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


@contextlib.contextmanager
def closing(servers: list[Server]) -> Iterator[None]:
    """Let the ports go at the end."""
    try:
        yield
    finally:
        for server in servers:
            server.close()
