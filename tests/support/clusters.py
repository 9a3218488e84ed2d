"""A second PostgreSQL cluster, and this process's Django on a database of it.

A restored database is another cluster's: its transaction ids start over. Only a real one shows it.
"""

import os
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from django.db import connections

from bettercompute.embedded import binaries, directories
from bettercompute.embedded.directories import Directories
from bettercompute.embedded.postgres import DISPOSABLE, USER, Postgres
from bettercompute.settings import env

WAIT_SECONDS_MAX = 120.0


@dataclass(frozen=True)
class Cluster:
    """A running cluster; its databases are made by name."""

    url: str
    programs: Path

    def create(self, name: str, *, owner: str = USER) -> str:
        """An empty database; answers its address."""
        with psycopg.connect(self.url, autocommit=True) as session:
            session.execute(f"CREATE DATABASE {name} OWNER {owner}")
        return database(self.url, name)

    def restore(self, dump: bytes, name: str) -> str:
        """A database from a dump, in one transaction; answers its address."""
        url = self.create(name)
        quiet = ["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--single-transaction"]
        subprocess.run(
            [self.programs / "psql", *quiet, url], input=dump, check=True, stdout=subprocess.DEVNULL
        )
        return url

    def dump(self, url: str) -> bytes:
        """What ``pg_dump`` makes of a database, of this cluster or another."""
        done = subprocess.run([self.programs / "pg_dump", url], check=True, capture_output=True)
        return done.stdout


def database(url: str, name: str) -> str:
    """The same server, another database."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(path=f"/{name}").geturl()


def as_role(url: str, name: str, password: str) -> str:
    """The same database, another role."""
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{name}:{password}@{host}").geturl()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what a server does by itself."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, "waited for too long"
        threading.Event().wait(0.05)


def this_one() -> str:
    """The address of the database that the tests use."""
    return database(os.environ["DATABASE_URL"], connections["default"].settings_dict["NAME"])


@contextmanager
def fresh(**parameters: str) -> Iterator[Cluster]:
    """A new cluster of its own, gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="better-compute-cluster-")).resolve()
    home.chmod(0o711)
    placed = directories.place_services(directories.make_home(home))
    try:
        with _running(placed, parameters) as cluster:
            yield cluster
    finally:
        directories.remove(placed)
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _running(placed: Directories, parameters: dict[str, str]) -> Iterator[Cluster]:
    service = Postgres(
        placed,
        parameters={**DISPOSABLE, "max_connections": "50", **parameters},
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
    )
    service.prepare()
    process = service.launch()
    try:
        wait_until(lambda: service.is_ready() or process.poll() is not None)
        assert process.poll() is None, "the second cluster ended"
        yield Cluster(service.url, binaries.postgres(placed))
    finally:
        process.send_signal(service.farewell.signals[-1])
        process.wait(WAIT_SECONDS_MAX)


@contextmanager
def connected_to(url: str) -> Iterator[None]:
    """Have this thread's Django use another database; its settings are put back."""
    wrapper = connections["default"]
    before = dict(wrapper.settings_dict)
    wrapper.close()
    wrapper.settings_dict.update(env.database(url), CONN_MAX_AGE=0)
    try:
        yield
    finally:
        wrapper.close()
        wrapper.settings_dict.clear()
        wrapper.settings_dict.update(before)
