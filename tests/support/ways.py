"""Ways to PostgreSQL: directly, and through a transaction pooler.

A test that asks for ``way`` runs once by each. The pooler hands each transaction to the next of
several server connections, so whatever relies on the state of a session comes to light.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.db import connection, connections
from psycopg.conninfo import make_conninfo

from tests.support import pgbouncer, proxy, sessions
from tests.support.pgbouncer import Pooler

SERVERS = 8  # so many transactions at once; a test's threads stay below


@dataclass(frozen=True, slots=True)
class Cut:
    """A way that can be cut, for open connections and for new ones, and restored."""

    cut: Callable[[], None]
    restore: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Way:
    """How the connections of this test, and of its threads, reach PostgreSQL."""

    pooler: Pooler | None
    directory: Path

    @contextmanager
    def severable(self) -> Iterator[Cut]:
        """From here on the way can be cut: by killing the pooler, or a relay put in between."""
        if self.pooler is not None:
            yield Cut(self.pooler.kill, self.pooler.start)
            if not self.pooler.alive():
                self.pooler.start()
            return
        with (
            proxy.proxied(_target(), self.directory) as relay,
            _going_by(self.directory, proxy.PORT),
        ):
            yield Cut(relay.cut, relay.restore)


@pytest.fixture(scope="session")
def pooler(django_db_setup: None) -> Iterator[Pooler]:
    """A PgBouncer before the tests' server; it ends before the test database is dropped."""
    with pgbouncer.pooled(_target(), servers_max=SERVERS) as started:
        yield started


@pytest.fixture(params=["directly", "pooled"])
def way(request: pytest.FixtureRequest, transactional_db: None, tmp_path: Path) -> Iterator[Way]:
    """Each way in turn."""
    if request.param == "directly":
        yield Way(None, tmp_path)
        return
    pooler = request.getfixturevalue("pooler")
    with by(pooler):
        yield Way(pooler, tmp_path)


@contextmanager
def by(pooler: Pooler) -> Iterator[None]:
    """Let every connection from here on go through the pooler, with all its servers open."""
    with _going_by(pooler.directory, pgbouncer.PORT):
        _open_every_server()
        yield


@contextmanager
def _going_by(directory: Path, port: int) -> Iterator[None]:
    """Let every connection from here on go to the socket in this directory."""
    # One dictionary for the connections of all threads.
    ours = connection.settings_dict
    before = {"HOST": ours["HOST"], "PORT": ours["PORT"]}
    connections.close_all()
    ours.update(HOST=str(directory), PORT=str(port))
    try:
        yield
    finally:
        connections.close_all()
        ours.update(before)


def _open_every_server() -> None:
    """Have the pooler open all it may: from now on a transaction seldom meets the last one's."""
    names = [f"opener {number}" for number in range(SERVERS - 1)]
    with sessions.opened(*names) as opened:
        for session in opened:
            session.begin()
            session.sql("SELECT 1")


def _target() -> str:
    settings = connection.settings_dict
    return make_conninfo(
        host=settings["HOST"] or None,
        port=settings["PORT"] or None,
        user=settings["USER"] or None,
        password=settings["PASSWORD"] or None,
        dbname=settings["NAME"],
    )
