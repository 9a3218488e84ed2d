"""`make up` as people run it: real processes, killed and started again.

One deployment serves the whole file. A test that stops or kills it starts it again, and each start
proves the same promise: what `demo.json` names is ready, and a reservation made then is bound.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psutil
import psycopg
import pytest
import redis
from psycopg import sql

from bettercompute.embedded import directories, processes

pytestmark = pytest.mark.enable_socket

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

    def call(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One call of the API, as alice."""
        request = urllib.request.Request(
            f"{self.demo['url']}/api/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.demo['tokens']['alice']}",
                "Content-Type": "application/json",
            },
        )
        with DIRECT.open(request, timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
        return answer

    def reserve(self, *, gpus: int = 1) -> str:
        body = {
            "tenantId": self.demo["tenant"],
            "poolId": self.demo["pools"]["main"],
            "devices": [{"class": "gpu", "count": gpus}],
            "duration": "1h",
            "idempotencyKey": uuid.uuid4().hex,
        }
        identifier: str = self.call("/reservations", body)["id"]
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


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="better-compute-up-")).resolve()
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def shared(place: Path) -> Iterator[Deployment]:
    with deployment_at(place) as deployment:
        yield deployment


@pytest.fixture
def deployment(shared: Deployment) -> Deployment:
    """The shared deployment, running."""
    if not shared.runs:
        shared.start()
    return shared


def alive_after_a_while(those: list[psutil.Process]) -> list[psutil.Process]:
    _, alive = psutil.wait_procs(those, timeout=STOP_SECONDS)
    return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def listens(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as client:
        return client.connect_ex((str(parts.hostname), int(parts.port or 0))) == 0


@pytest.mark.rule("U10")
def test_demo_json_names_everything_a_client_needs(deployment: Deployment) -> None:
    demo = deployment.demo

    assert set(demo) == {"url", "gateway", "tenant", "tenants", "pools", "tokens", "logins"}
    assert listens(demo["url"])
    assert listens(demo["gateway"])
    people = {"alice", "bob", "mallory", "olga"}
    assert set(demo["tenants"]) == set(demo["tokens"]) == set(demo["logins"]) == people
    assert demo["tenants"]["alice"] == demo["tenants"]["bob"] == demo["tenant"]
    assert {"main", "mig"} <= set(demo["pools"])
    for name, login in demo["logins"].items():
        assert login.keys() == {"username", "password"}
        assert login["username"] == name
        assert f"{name:<10} {login['password']}" in deployment.said
    assert (deployment.home / "demo.json").stat().st_mode & 0o777 == 0o600


def test_a_second_start_is_refused_at_once_and_harms_nothing(deployment: Deployment) -> None:
    before = deployment.demo

    second = subprocess.run(
        UP,
        env={**EMBEDDED, "BETTERCOMPUTE_DATA": str(deployment.home), "PORT": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert second.returncode == 1
    assert second.stderr == ""
    assert second.stdout.count("\n") == 1
    assert f"already runs on {deployment.home} (pid {deployment.pid}" in second.stdout
    assert deployment.demo == before
    assert deployment.runs


def test_a_stop_leaves_only_data_and_a_restart_goes_on_with_it(deployment: Deployment) -> None:
    kept = deployment.reserve()
    deployment.wait_until_active(kept, seconds=RECOVERY_SECONDS)
    before, everything = deployment.demo, deployment.everything()
    assert {"postgres", "valkey-server"} <= {process.name() for process in everything}

    started = time.monotonic()
    assert deployment.end(signal.SIGTERM) == 0

    assert time.monotonic() - started < STOP_SECONDS
    assert deployment.said.startswith(f"Starting Better Compute on {deployment.home}")
    assert deployment.said.endswith("Stopping everything …\n")
    assert [process for process in everything if process.is_running()] == []
    assert processes.leftovers(mark=str(deployment.home), directories=[]) == []
    assert not listens(before["url"])
    assert not listens(before["gateway"])
    assert not (deployment.home / "demo.json").exists()
    assert [path for path in deployment.home.rglob("*") if path.is_socket()] == []
    assert list(deployment.temporary.iterdir()) == []

    deployment.start()
    fresh = deployment.reserve(gpus=4)  # at once: demo.json promises no less

    deployment.wait_until_active(fresh, seconds=ACTIVE_SECONDS)
    for same in ("tenant", "tenants", "pools", "tokens", "logins"):
        assert deployment.demo[same] == before[same]
    assert deployment.state(kept) == "active"
    deployment.release(fresh)
    deployment.release(kept)


def test_a_killed_run_needs_nothing_but_a_start(deployment: Deployment) -> None:
    kept = deployment.reserve()
    stale = deployment.demo
    everything = deployment.everything()
    deployment.end(signal.SIGKILL)
    assert (deployment.home / "demo.json").exists()  # nobody was left to remove it
    (deployment.home / "demo.json").rename(deployment.home / "stale.json")

    deployment.start()  # at once, while the dead one's children may still be stopping

    assert alive_after_a_while(everything) == []
    assert deployment.demo["tokens"] == stale["tokens"]
    deployment.wait_until_active(kept, seconds=RECOVERY_SECONDS)
    deployment.release(kept)
    (deployment.home / "stale.json").unlink()


def test_a_stale_demo_json_is_gone_before_anything_is_ready(
    deployment: Deployment, tmp_path: Path
) -> None:
    # Beside the running one, so that this start ends early: at the taken port, before services.
    home = tmp_path / "data"
    home.mkdir()
    (home / "demo.json").write_text("{}")
    port = str(urlsplit(deployment.demo["url"]).port)

    refused = subprocess.run(
        UP,
        env={**EMBEDDED, "BETTERCOMPUTE_DATA": str(home), "PORT": port},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert f"Port {port} is taken" in refused.stdout
    assert not (home / "demo.json").exists()


@pytest.mark.rule("C25")
def test_a_killed_worker_only_delays(deployment: Deployment) -> None:
    deployment.child("celery", "worker").kill()

    kept = deployment.reserve()

    assert deployment.state(kept) in {"pending", "placed", "binding"}
    deployment.wait_until_active(kept, seconds=RECOVERY_SECONDS)
    deployment.release(kept)


@pytest.mark.rule("C25")
def test_an_emptied_valkey_only_delays(deployment: Deployment) -> None:
    with redis.Redis.from_url(valkey_of(deployment)) as valkey:
        valkey.flushall()

        kept = deployment.reserve()
        valkey.flushall()

    deployment.wait_until_active(kept, seconds=RECOVERY_SECONDS)
    deployment.release(kept)


@pytest.mark.rule("C25")
def test_a_killed_valkey_only_delays(deployment: Deployment) -> None:
    deployment.child("valkey-server").kill()

    kept = deployment.reserve()

    deployment.wait_until_active(kept, seconds=RECOVERY_SECONDS)
    assert "Valkey ended (SIGKILL)" in deployment.said
    deployment.release(kept)


def test_given_servers_replace_the_embedded_ones(tmp_path: Path) -> None:
    if not os.environ.get("DATABASE_URL") or not os.environ.get("REDIS_URL"):
        pytest.skip("needs DATABASE_URL and REDIS_URL, as `make test` sets them")
    with (
        own_database() as database_url,
        deployment_at(
            tmp_path, DATABASE_URL=database_url, REDIS_URL=own_redis(), SIM="4"
        ) as deployment,
    ):
        deployment.start()

        kept = deployment.reserve()
        deployment.wait_until_active(kept, seconds=RECOVERY_SECONDS)

        names = {process.name() for process in deployment.everything()}
        assert not {"postgres", "valkey-server"} & names
        assert not (deployment.home / "pg").exists()
        with psycopg.connect(database_url) as connection:
            row = connection.execute("SELECT state FROM reservations WHERE id = %s", [kept])
            assert row.fetchone() == ("active",)
        deployment.end(signal.SIGTERM)


def valkey_of(deployment: Deployment) -> str:
    services = directories.of_services(deployment.home)[0].parent
    return f"unix://{quote(str(services / 'run' / 'valkey.sock'))}"


def own_redis() -> str:
    """Another database of the given server than the tests use."""
    base = os.environ["REDIS_URL"].partition("?")[0]
    return f"{base}?db=9"


@contextlib.contextmanager
def own_database() -> Iterator[str]:
    """A database of its own on the given server."""
    server = os.environ["DATABASE_URL"]
    name = f"up_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            parts = urlsplit(server)
            yield parts._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )
