"""Embedded PostgreSQL and Valkey survive whatever happens to them and to their supervisor."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import psutil
import psycopg
import pytest
import redis

from bettercompute.embedded import directories, processes

KEEP_SERVICES = Path(__file__).with_name("keep_services.py")


class Keep(Protocol):
    def __call__(self, at: Path = ...) -> "Kept": ...


class Kept:
    """A running `keep_services.py`, and connections to what it keeps."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, str(KEEP_SERVICES), str(home)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.database_url, self.redis_url = json.loads(self.process.stdout.readline())

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @property
    def valkey(self) -> "redis.Redis":
        return redis.Redis.from_url(self.redis_url)

    def postmaster(self) -> psutil.Process:
        (found,) = [
            process
            for process in psutil.Process(self.process.pid).children()
            if process.name() == "postgres"
        ]
        return found

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def home() -> Iterator[Path]:
    """A data directory that the services' account can reach, as few of pytest's own can."""
    path = Path(tempfile.mkdtemp(prefix="better-compute-test-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def keep(home: Path) -> Iterator[Keep]:
    """Start a supervisor on the data directory; none of them outlives the test."""
    started: list[Kept] = []

    def start(at: Path = home) -> Kept:
        started.append(Kept(at))
        return started[-1]

    yield start
    for kept in started:
        if kept.process.poll() is None:
            kept.end(signal.SIGKILL)
        places = directories.of_services(kept.home)
        processes.stop_leftovers(mark=None, directories=places)


def eventually(condition: Callable[[], bool], *, seconds: float = 60) -> None:
    """Wait for real processes, which no clock of ours drives."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def services_in(home: Path) -> list[psutil.Process]:
    return processes.leftovers(mark=None, directories=directories.of_services(home))


def connects(kept: Kept) -> bool:
    try:
        kept.sql("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def test_rows_outlive_a_clean_stop_and_nothing_else_does(home: Path, keep: Keep) -> None:
    first = keep()
    first.sql("CREATE TABLE kept (n int)")
    first.sql("INSERT INTO kept VALUES (42)")
    first.valkey.set("hint", "1")
    assert first.end(signal.SIGTERM) == 0
    assert services_in(home) == []

    second = keep()

    assert second.sql("SELECT n FROM kept") == [(42,)]
    second.end(signal.SIGINT)


def test_the_servers_are_reachable_by_their_owner_alone(home: Path, keep: Keep) -> None:
    kept = keep()
    without_password = kept.database_url.replace(
        kept.database_url.split("@")[0], "postgresql://better"
    )

    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(without_password).close()
    assert kept.sql("SHOW listen_addresses") == [("",)]
    (sockets,) = kept.sql("SHOW unix_socket_directories")[0]
    assert Path(str(sockets)).stat().st_mode & 0o777 == 0o700
    assert kept.valkey.config_get("port") == {"port": "0"}
    kept.end(signal.SIGTERM)


def test_what_is_acknowledged_survives_a_killed_supervisor(home: Path, keep: Keep) -> None:
    first = keep()
    first.sql("CREATE TABLE kept (n int)")
    first.sql("INSERT INTO kept VALUES (42)")
    first.end(signal.SIGKILL)

    second = keep()  # at once, while the first one's servers may still be stopping

    assert second.sql("SELECT n FROM kept") == [(42,)]
    assert len([p for p in services_in(home) if p.name() == "valkey-server"]) == 1
    second.end(signal.SIGTERM)
    assert services_in(home) == []


def test_a_killed_postmaster_is_started_again_and_has_every_row(home: Path, keep: Keep) -> None:
    kept = keep()
    kept.sql("CREATE TABLE kept (n int)")
    kept.sql("INSERT INTO kept VALUES (42)")
    killed = kept.postmaster()

    killed.kill()

    eventually(lambda: not killed.is_running())
    eventually(lambda: connects(kept))
    assert kept.sql("SELECT n FROM kept") == [(42,)]
    kept.end(signal.SIGTERM)
    assert services_in(home) == []


@pytest.mark.long
def test_a_killed_valkey_is_started_again(home: Path, keep: Keep) -> None:
    kept = keep()
    (valkey,) = [p for p in services_in(home) if p.name() == "valkey-server"]

    valkey.kill()

    def answers() -> bool:
        try:
            return bool(kept.valkey.ping())
        except redis.ConnectionError:
            return False

    eventually(lambda: not valkey.is_running() and answers())
    kept.end(signal.SIGTERM)


@pytest.mark.long
def test_a_stale_pid_of_a_living_stranger_does_not_hinder_a_start(home: Path, keep: Keep) -> None:
    keep().end(signal.SIGTERM)
    pid_file = directories.of_services(home)[0] / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{pid_file.parent}\n0\n5432\n\n\n\nready\n")

    kept = keep()

    assert kept.sql("SELECT 1") == [(1,)]
    kept.end(signal.SIGTERM)


def test_a_half_made_cluster_is_made_again(home: Path, keep: Keep) -> None:
    services = home / "pg.unfinished"
    services.mkdir()
    (services / "PG_VERSION").write_text("18\n")

    kept = keep()

    assert kept.sql("SELECT 1") == [(1,)]
    kept.end(signal.SIGTERM)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the services as another account")
def test_services_that_cannot_reach_the_data_directory_live_apart_from_it(
    home: Path, keep: Keep
) -> None:
    home.chmod(0o700)
    first = keep(home / "data")
    first.sql("CREATE TABLE kept (n int)")
    first.end(signal.SIGTERM)
    (services,) = {path.parent for path in directories.of_services(home / "data")}
    assert services.parent == directories.SYSTEM_DIRECTORY
    assert home.stat().st_mode & 0o777 == 0o700

    # They follow the data directory when it moves.
    (home / "data").rename(home / "moved")
    second = keep(home / "moved")

    assert second.sql("SELECT count(*) FROM kept") == [(0,)]
    second.end(signal.SIGTERM)
    shutil.rmtree(services)


@pytest.mark.long
def test_an_odd_name_of_the_data_directory_reaches_both_servers(home: Path, keep: Keep) -> None:
    kept = keep(home / "naïve 100%41 #{x}")

    assert kept.sql("SELECT 1") == [(1,)]
    assert kept.valkey.ping()
    kept.end(signal.SIGTERM)


@pytest.mark.long
def test_a_long_data_directory_has_its_sockets_elsewhere_and_leaves_none(
    home: Path, keep: Keep
) -> None:
    long = home.joinpath(*["a-directory-with-a-long-name"] * 4)
    long.mkdir(parents=True)
    for directory in [long, *long.parents[:4]]:
        directory.chmod(0o711)
    kept = keep(long)

    (sockets,) = kept.sql("SHOW unix_socket_directories")[0]

    assert home not in Path(str(sockets)).parents
    kept.end(signal.SIGTERM)
    assert not Path(str(sockets)).exists()
