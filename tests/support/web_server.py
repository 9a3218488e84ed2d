"""The web server as a process of its own, on the test's database and a port that stays the same."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from django.db import connection
from psycopg.conninfo import make_conninfo

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
STOP_SECONDS = 60.0


def database_url() -> str:
    """The test's own database, as another process reaches it."""
    settings = connection.settings_dict
    wanted = {
        "dbname": settings["NAME"],
        "user": settings["USER"],
        "password": settings["PASSWORD"],
        "host": settings["HOST"] or settings["OPTIONS"].get("host"),
        "port": settings["PORT"],
    }
    return make_conninfo("", **{key: each for key, each in wanted.items() if each})


class WebServer:
    """``gunicorn … bettercompute.asgi:application``, as it is started everywhere."""

    def __init__(self, database: str, workers: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._database = database
        self._workers = workers
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its master process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start, and wait until it is ready."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "-c", "python:bettercompute.gunicorn_conf"),
                *("--workers", str(self._workers), "--bind", f"127.0.0.1:{self.port}"),
                "bettercompute.asgi:application",
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "DATABASE_URL": self._database,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            assert self._process.poll() is None, "the server ended while it started"
            assert time.monotonic() < deadline, "the server did not get ready"
            threading.Event().wait(0.1)

    def terminate(self) -> None:
        """SIGTERM, as an init system says it; it has to end by itself."""
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(timeout=STOP_SECONDS) == 0

    def kill(self) -> None:
        """SIGKILL to the whole group: master and workers."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=10)

    def close(self) -> None:
        """End it, however it is."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _is_ready(self) -> bool:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(self.url + "/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.HTTPError, OSError):
            return False


@contextlib.contextmanager
def running(*, workers: int = 2) -> Iterator[WebServer]:
    """A server for as long as the block."""
    server = WebServer(database_url(), workers)
    try:
        server.start()
        yield server
    finally:
        server.close()
