"""PgBouncer in transaction mode before a PostgreSQL: the real program, with nothing forgiven.

Each transaction of a client may run on another server connection. No startup parameter is ignored
and prepared statements are not kept, so whatever relies on session state fails here.
"""

import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from bettercompute.embedded import accounts, directories, processes
from bettercompute.embedded.accounts import Account
from bettercompute.embedded.processes import Child, Farewell

PORT = 6432
SERVERS_MAX = 20  # connections to PostgreSQL for each database
READY_SECONDS_MAX = 20.0
# How long a client waits while PostgreSQL is away; the default of two minutes outlasts a request.
WAIT_SECONDS_MAX = 5
TERMINATE = Farewell((Signals.SIGTERM,), seconds=2)

_PLACES = ("/usr/sbin", "/usr/local/sbin")  # not on everybody's path


def program() -> Path | None:
    """The installed `pgbouncer`, if any."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path=":".join(_PLACES))
    return Path(found) if found else None


def require() -> Path:
    """The program; skips the test where there is none."""
    found = program()
    if found is None:
        pytest.skip("PgBouncer is not installed (`apt-get install pgbouncer`, as .ci/run does)")
    return found


@dataclass(slots=True)
class Pooler:
    """One PgBouncer; it may be started again after each end."""

    target: str
    directory: Path
    account: Account | None
    servers_max: int = SERVERS_MAX
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """The same database, user and password as the target's, by way of the pooler."""
        return self.url_of(self._parts.get("dbname", "postgres"))

    def url_of(self, database: str) -> str:
        """Another database of the same server, by way of the pooler."""
        user, password = (
            urllib.parse.quote(self._parts.get(key, "")) for key in ("user", "password")
        )
        return f"postgresql://{user}:{password}@:{PORT}/{database}?host={self.directory}"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        self._socket.unlink(missing_ok=True)
        self._write_configuration()
        self._process = processes.spawn(
            Child(
                argv=[str(require()), str(self.directory / "pgbouncer.ini")],
                log=self.log,
                env={"LC_ALL": "C"},
                cwd=self.directory,
                account=self.account,
            )
        )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self._accepts():
            assert self.alive(), f"PgBouncer ended: {processes.last_lines(self.log)}"
            assert time.monotonic() < deadline, f"PgBouncer does not listen: see {self.log}"
            time.sleep(0.02)

    def stop(self) -> None:
        """End it; its connections end with it."""
        if self._process is not None:
            processes.stop([(self._process, TERMINATE)])

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def show(self, what: str) -> list[dict[str, Any]]:
        """Rows of its console: ``show("servers")``, say."""
        with psycopg.connect(
            self.url_of("pgbouncer"), autocommit=True, row_factory=psycopg.rows.dict_row
        ) as console:
            return console.execute(f"SHOW {what.upper()}").fetchall()

    @property
    def _parts(self) -> dict[str, str]:
        return {key: str(value) for key, value in conninfo_to_dict(self.target).items()}

    @property
    def _socket(self) -> Path:
        return self.directory / f".s.PGSQL.{PORT}"

    def _accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self._socket)) == 0

    def _write_configuration(self) -> None:
        parts = self._parts
        users = f'"{parts["user"]}" "{parts.get("password", "")}"\n'
        server = f"host={parts.get('host', '127.0.0.1')} port={parts.get('port', '5432')}"
        options = {
            "pool_mode": "transaction",
            "unix_socket_dir": self.directory,
            "listen_port": PORT,
            "auth_type": "scram-sha-256",
            "auth_file": self.directory / "users.txt",
            "admin_users": parts["user"],
            "max_client_conn": 500,
            "default_pool_size": self.servers_max,
            "server_round_robin": 1,  # never the same session twice, where there are several
            "query_wait_timeout": WAIT_SECONDS_MAX,
            "server_login_retry": 1,
        }
        lines = ["[databases]", f"* = {server}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in options.items()]
        self._write("users.txt", users)
        self._write("pgbouncer.ini", "\n".join(lines) + "\n")

    def _write(self, name: str, text: str) -> None:
        path = self.directory / name
        directories.write_private(path, text)
        if self.account is not None:
            shutil.chown(path, self.account.uid, self.account.gid)


@contextmanager
def pooled(target: str, *, servers_max: int = SERVERS_MAX) -> Iterator[Pooler]:
    """A running pooler before the server of a libpq URL; skips where there is no PgBouncer."""
    require()
    host = str(conninfo_to_dict(target).get("host", ""))
    # Whoever owns PostgreSQL's private socket may connect to it; PgBouncer does not run as root.
    account = accounts.for_services(Path(host))
    directory = Path(tempfile.mkdtemp(prefix="bc-pooler-"))
    pooler = Pooler(target, directory, account, servers_max)
    try:
        accounts.own(directory, account=account)
        pooler.start()
        yield pooler
    finally:
        pooler.stop()
        shutil.rmtree(directory, ignore_errors=True)
