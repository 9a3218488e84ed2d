"""What `better-compute up` says when it cannot start: one line, no traceback, nothing left."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bettercompute.embedded import lock

pytestmark = pytest.mark.enable_socket

UP = [sys.executable, "-m", "bettercompute.embedded.up"]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Somebody else's server."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server


def up(data: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: os.environ[key] for key in os.environ.keys() - {"DATABASE_URL", "REDIS_URL"}}
    return subprocess.run(
        UP,
        env={**kept, "BETTERCOMPUTE_DATA": str(data), "PORT": "0", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    return done.stdout


def test_a_bad_value_names_its_variable(tmp_path: Path) -> None:
    done = up(tmp_path / "data", PORT="abc")

    assert one_line(done) == "PORT must be a whole number from 0 to 65535, not 'abc'.\n"
    assert done.returncode == 2
    assert not (tmp_path / "data").exists()


def test_a_second_start_is_told_where_the_first_one_runs(tmp_path: Path) -> None:
    (tmp_path / "demo.json").write_text("{}")

    with lock.held(tmp_path, where="port 8000"):
        done = up(tmp_path)

    assert f"already runs on {tmp_path} (pid {os.getpid()}, port 8000)" in one_line(done)
    assert done.returncode == 1
    assert (tmp_path / "demo.json").exists()  # it is the first one's


@pytest.mark.parametrize("variable", ["PORT", "GATEWAY_PORT"])
def test_a_taken_port_names_its_holder_and_the_variable(
    tmp_path: Path, listener: socket.socket, variable: str
) -> None:
    (tmp_path / "demo.json").write_text("{}")
    port = listener.getsockname()[1]

    done = up(tmp_path, **{variable: str(port)})

    line = one_line(done)
    assert f"Port {port} is taken by {psutil.Process().name()} (pid {os.getpid()})" in line
    assert f"set {variable} to another" in line
    assert done.returncode == 1
    assert not (tmp_path / "demo.json").exists()  # an earlier run's: nothing is running
    assert not (tmp_path / "pg").exists()


@pytest.mark.parametrize(
    ("variable", "address", "server"),
    [
        ("DATABASE_URL", "postgresql://127.0.0.1:{port}/x", "PostgreSQL"),
        ("DATABASE_URL", "postgresql://127.0.0.1:99999999/x", "PostgreSQL"),
        ("REDIS_URL", "redis://127.0.0.1:{port}/0", "Valkey"),
        ("REDIS_URL", "redis://127.0.0.1:port/0", "Valkey"),
    ],
)
def test_a_given_server_that_does_not_answer_names_its_variable(
    tmp_path: Path, variable: str, address: str, server: str
) -> None:
    with socket.socket() as silent:  # bound, and nobody listens
        silent.bind(("127.0.0.1", 0))
        given = address.format(port=silent.getsockname()[1])
        done = up(tmp_path, **{variable: given})

    line = one_line(done)
    assert line.startswith(f"{server} cannot be used (")
    assert f"correct {variable}" in line
    assert done.returncode == 1
    assert not (tmp_path / "pg").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    done = up(Path("/proc/better-compute"))

    assert "The data directory /proc/better-compute cannot be written" in one_line(done)
    assert done.returncode == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_is_named_before_anything_is_started(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        done = up(small)
    finally:
        subprocess.run(["umount", str(small)], check=True)

    assert f"The disk of {small} is full" in one_line(done)
    assert done.returncode == 1
