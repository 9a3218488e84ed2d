"""The embedded Valkey: wake-ups and the Celery broker, nothing that must not be lost."""

import contextlib
import signal
import socket
import subprocess
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bettercompute.embedded import binaries, processes
from bettercompute.embedded.directories import Directories
from bettercompute.embedded.processes import Child, Farewell

TERMINATE = Farewell((signal.SIGTERM,), seconds=3)


@dataclass(frozen=True, slots=True)
class Valkey:
    """A server on a private socket; `launch` may be called again after each end."""

    directories: Directories
    env: Mapping[str, str]
    name: str = "Valkey"
    farewell: Farewell = TERMINATE

    @property
    def log(self) -> Path:
        return self.directories.logs / "valkey.log"

    @property
    def url(self) -> str:
        return f"unix://{urllib.parse.quote(str(self._socket))}?db=0"

    def prepare(self) -> None:
        """Valkey makes its files itself."""

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the server when an earlier one is gone: two must not write one file."""
        processes.stop_leftovers(mark=None, directories=[self.directories.valkey])
        self._socket.unlink(missing_ok=True)
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self.directories.valkey),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        argv = [str(binaries.valkey(self.directories))]
        for key, value in options.items():
            argv += [f"--{key}", value]
        child = Child(
            argv=argv,
            log=self.log,
            env=self.env,
            cwd=self.directories.valkey,
            account=self.directories.account,
        )
        return processes.spawn(child)

    def is_ready(self) -> bool:
        """Whether it answers PONG: it says LOADING while it reads its file."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(str(self._socket))
            connection.sendall(b"*1\r\n$4\r\nPING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        return False

    @property
    def _socket(self) -> Path:
        return self.directories.sockets / "valkey.sock"
