"""The embedded PostgreSQL: a cluster made once, a server as a direct child.

It listens on a socket in a private directory only, and asks for a password even there.
"""

import contextlib
import shutil
import signal
import subprocess
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bettercompute.embedded import accounts, binaries, directories, processes
from bettercompute.embedded.directories import Directories
from bettercompute.embedded.failures import CannotStart
from bettercompute.embedded.processes import Child, Farewell

MAJOR = "18"
USER = "better"

DURABLE: Mapping[str, str] = {
    "max_connections": "200",
    "shared_buffers": "256MB",
    "jit": "off",
    # Nobody runs this on spinning disks, and what is hot is in memory: at the default of 4 the
    # planner reads whole tables where an index would do, and a create costs twice as much.
    "random_page_cost": "1.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_lock_waits": "on",
}
# For tests: fast, and allowed to lose everything when the machine stops.
DISPOSABLE: Mapping[str, str] = {
    **DURABLE,
    "max_connections": "300",
    "max_locks_per_transaction": "128",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
}

_READY_LINE = 7  # of postmaster.pid

# Fast shutdown; then immediate, from which the next start recovers.
FAST_THEN_IMMEDIATE = Farewell((signal.SIGINT, signal.SIGQUIT), seconds=3)


@dataclass(frozen=True, slots=True)
class Postgres:
    """A cluster in `directories.postgres`; `launch` may be called again after each end."""

    directories: Directories
    parameters: Mapping[str, str]
    env: Mapping[str, str]
    name: str = "PostgreSQL"
    farewell: Farewell = FAST_THEN_IMMEDIATE

    @property
    def log(self) -> Path:
        return self.directories.logs / "postgres.log"

    @property
    def url(self) -> str:
        host = urllib.parse.quote(str(self.directories.sockets))
        return f"postgresql://{USER}:{self._password}@/postgres?host={host}"

    def prepare(self) -> None:
        """Make the cluster if there is none.

        Raises:
            CannotStart: the cluster is of another major version, or cannot be made.
        """
        marker = self.directories.postgres / "PG_VERSION"
        if not marker.exists():
            self._initialise()
        elif (found := marker.read_text(encoding="ascii").strip()) != MAJOR:
            raise CannotStart(
                f"{self.directories.postgres} was written by PostgreSQL {found}, and this is "
                f"{MAJOR}: dump it with the version that wrote it, move it away and load the dump."
            )

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the server, once whatever an earlier one left is gone."""
        data = self.directories.postgres
        processes.stop_leftovers(mark=None, directories=[data])
        # We hold the lock and nothing runs here: by now a pid in this file is another program's.
        (data / "postmaster.pid").unlink(missing_ok=True)
        self._remove_socket()
        options = {
            **self.parameters,
            "listen_addresses": "",
            "unix_socket_directories": str(self.directories.sockets),
            "unix_socket_permissions": "0700",
        }
        program = binaries.postgres(self.directories) / "postgres"
        argv = [str(program), "-D", str(data)]
        for key, value in options.items():
            argv += ["-c", f"{key}={value}"]
        return processes.spawn(self._child(argv, on_supervisor_death=signal.SIGINT))

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError, IndexError):
            pid_file = (self.directories.postgres / "postmaster.pid").read_text(encoding="utf-8")
            return pid_file.splitlines()[_READY_LINE].strip() == "ready"
        return False

    def _initialise(self) -> None:
        """Make the cluster aside and move it into place: a half-made one is never started."""
        unfinished = self.directories.services / "pg.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        accounts.own(unfinished, account=self.directories.account)
        password_file = self.directories.sockets / "password"
        directories.write_private(password_file, self._password)
        if account := self.directories.account:
            shutil.chown(password_file, account.uid, account.gid)
        program = binaries.postgres(self.directories) / "initdb"
        argv = [str(program), "-D", str(unfinished), "-U", USER, "--encoding=UTF8", "--locale=C"]
        # The builtin provider sorts alike on every system.
        argv += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        argv += ["--auth=scram-sha-256", f"--pwfile={password_file}", "--no-instructions"]
        try:
            code = processes.spawn(self._child(argv, on_supervisor_death=signal.SIGKILL)).wait()
        finally:
            password_file.unlink()
        if code != 0:
            raise CannotStart(
                f"PostgreSQL's files cannot be made in {self.directories.services}: "
                f"{processes.last_lines(self.log)}"
            )
        unfinished.rename(self.directories.postgres)

    def _child(self, argv: list[str], *, on_supervisor_death: signal.Signals) -> Child:
        return Child(
            argv=argv,
            log=self.log,
            env=self.env,
            cwd=self.directories.postgres,
            account=self.directories.account,
            on_supervisor_death=on_supervisor_death,
        )

    @property
    def _password(self) -> str:
        return directories.secret(self.directories.home, "database-password")

    def _remove_socket(self) -> None:
        for path in self.directories.sockets.glob(".s.PGSQL.*"):
            path.unlink()
