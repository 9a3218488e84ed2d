"""`make up` in the hands of a test: started, stopped and called as people do it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from bettercompute.embedded import directories, processes

UP = [sys.executable, "-m", "bettercompute.embedded.up"]
EMBEDDED = {key: os.environ[key] for key in os.environ.keys() - {"DATABASE_URL", "REDIS_URL"}}
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))

START_SECONDS = 180  # some ten on an idle machine; a busy one proves the rest as well
STOP_SECONDS = 60  # likewise: three seconds
ACTIVE_SECONDS = 30  # likewise: one
RECOVERY_SECONDS = 120


class Deployment:
    """`up` on a data directory, started and stopped at will."""

    def __init__(self, home: Path, temporary: Path, environment: dict[str, str]) -> None:
        self.home = home
        self.temporary = temporary
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def demo(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / "demo.json").read_text())
        return found

    @property
    def said(self) -> str:
        return self.home.with_name("said").read_text(errors="replace")

    def start(self, **environment: str) -> None:
        """Come back when `demo.json` is there."""
        with self.home.with_name("said").open("wb") as said:
            self._process = subprocess.Popen(
                UP,
                env={**self._environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        deadline = time.monotonic() + START_SECONDS
        while not (self.home / "demo.json").exists():
            assert self.runs, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.05)

    def end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(STOP_SECONDS)

    def everything(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)

    def child(self, *words: str) -> psutil.Process:
        """The one direct child whose command line has these words."""
        (found,) = [
            child
            for child in psutil.Process(self.pid).children()
            if all(any(word in part for part in child.cmdline()) for word in words)
        ]
        return found

    def call(
        self,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """One call of the API, as alice."""
        request = urllib.request.Request(
            f"{self.demo['url']}/api/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.demo['tokens']['alice']}",
                "Content-Type": "application/json",
                **(headers or {}),
            },
        )
        with DIRECT.open(request, timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
        return answer

    def metrics(self) -> str:
        """What Prometheus reads."""
        token = (self.home / "metrics-token").read_text()
        request = urllib.request.Request(
            f"{self.demo['url']}/metrics", headers={"Authorization": f"Bearer {token}"}
        )
        with DIRECT.open(request, timeout=30) as response:
            text: str = response.read().decode()
        return text

    def reserve(self, *, gpus: int = 1, headers: Mapping[str, str] | None = None) -> str:
        body = {
            "tenantId": self.demo["tenant"],
            "poolId": self.demo["pools"]["main"],
            "devices": [{"class": "gpu", "count": gpus}],
            "duration": "1h",
            "idempotencyKey": uuid.uuid4().hex,
        }
        identifier: str = self.call("/reservations", body, headers=headers)["id"]
        return identifier

    def state(self, reservation: str) -> str:
        state: str = self.call(f"/reservations/{reservation}")["state"]
        return state

    def wait_until_active(self, reservation: str, *, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (state := self.state(reservation)) != "active":
            assert state in {"pending", "placed", "binding"}
            assert time.monotonic() < deadline, f"{state} after {seconds} s; {self.said}"
            time.sleep(0.05)

    def release(self, reservation: str) -> None:
        body = {"tenantId": self.demo["tenant"]}
        self.call(f"/reservations/{reservation}/release", body)


@contextlib.contextmanager
def deployment_at(place: Path, **environment: str) -> Iterator[Deployment]:
    """A deployment that has ended, and whose files are gone, at the end of the block."""
    temporary = place / "tmp"
    temporary.mkdir()
    for directory in (place, temporary):  # the services' account passes through
        directory.chmod(0o711)
    home = place / "my data"
    wished = {"BETTERCOMPUTE_DATA": str(home), "PORT": "0", "TMPDIR": str(temporary)}
    deployment = Deployment(home, temporary, {**EMBEDDED, **wished, **environment})
    try:
        yield deployment
    finally:
        if deployment.runs:
            deployment.end(signal.SIGTERM)
        processes.stop_leftovers(mark=str(home), directories=directories.of_services(home))
