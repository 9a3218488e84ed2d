"""The processes of Better Compute itself: web, gateway, worker, beat and the simulated nodes."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import bettercompute
from bettercompute.embedded import demo, directories, processes
from bettercompute.embedded.processes import Child, Farewell
from bettercompute.embedded.services import Addresses

# Where templates and static files lie beside the packages; also makes `-m` find them uninstalled.
ROOT = Path(bettercompute.__path__[0]).parent

WEB_WORKERS = 2
# What a request that is under way gets when its server stops: less than the farewell below.
GRACEFUL_SECONDS = 5
TERMINATE = Farewell((signal.SIGTERM,), seconds=7)

_CELERY = ("celery", "--app=bettercompute.celery:app")


@dataclass(frozen=True, slots=True)
class PythonProgram:
    """A module of Python, run as a child of the supervisor."""

    name: str
    arguments: Sequence[str]
    log: Path
    env: Mapping[str, str]
    pass_fds: Sequence[int] = field(default=())
    farewell: Farewell = TERMINATE

    def launch(self, *, stdout: int | None = None) -> subprocess.Popen[bytes]:
        child = Child(
            argv=[sys.executable, "-m", *self.arguments],
            log=self.log,
            env=self.env,
            cwd=ROOT,
            pass_fds=self.pass_fds,
        )
        return processes.spawn(child, stdout=stdout)


@dataclass(frozen=True, slots=True)
class Programs:
    """Makes the programs of one deployment.

    A second control plane on the same services has a suffix, which its logs carry.
    """

    home: Path
    addresses: Addresses
    suffix: str = ""
    settings: str = "bettercompute.settings.embedded"

    def prepare(self) -> PythonProgram:
        """Migrate, expire the leases of an earlier run, seed; prints what the demo has."""
        return self._program("prepare", ["django", "prepare", "--demo"])

    def web(self, *, socket: int) -> PythonProgram:
        return self._server("web", "bettercompute.asgi:application", WEB_WORKERS, socket=socket)

    def gateway(self, *, socket: int) -> PythonProgram:
        # One process: a gateway keeps its sessions in memory and holds one lease (N2).
        return self._server("gateway", "nodes.gateway.app:application", 1, socket=socket)

    def worker(self) -> PythonProgram:
        return self._program("worker", [*_CELERY, "worker", "--without-gossip", "--without-mingle"])

    def beat(self) -> PythonProgram:
        return self._program("beat", [*_CELERY, "beat"])

    def simulated_nodes(self, *, count: int, gateways: Sequence[str]) -> PythonProgram:
        arguments = ["django", "simulate_nodes", f"--count={count}"]
        arguments += [f"--gateway={gateway}" for gateway in gateways]
        return self._program("nodes", arguments)

    def _server(self, name: str, application: str, workers: int, *, socket: int) -> PythonProgram:
        arguments = ["gunicorn", "--config=python:bettercompute.gunicorn_conf"]
        arguments += [f"--workers={workers}", f"--bind=fd://{socket}"]
        arguments += [f"--graceful-timeout={GRACEFUL_SECONDS}", application]
        return self._program(name, arguments, pass_fds=[socket])

    def _program(
        self, name: str, arguments: Sequence[str], *, pass_fds: Sequence[int] = ()
    ) -> PythonProgram:
        name += self.suffix
        log = self.home / "logs" / f"{name}.log"
        return PythonProgram(name, arguments, log=log, env=self.environment(), pass_fds=pass_fds)

    def environment(self) -> dict[str, str]:
        """The caller's environment, less what would lead the programs elsewhere."""
        kept = dict(os.environ)
        if kept.get("DATABASE_URL") != self.addresses.database_url:
            # libpq's variables are meant for another server than ours.
            kept = {key: value for key, value in kept.items() if not key.startswith("PG")}
        local = ",".join(filter(None, [kept.get("NO_PROXY"), "127.0.0.1", "localhost"]))
        return {
            **kept,
            "DJANGO_SETTINGS_MODULE": self.settings,
            "DATABASE_URL": self.addresses.database_url,
            "REDIS_URL": self.addresses.redis_url,
            "BETTERCOMPUTE_DATA": str(self.home),
            "BETTERCOMPUTE_SECRET_KEY": directories.secret(self.home, "secret-key"),
            "BETTERCOMPUTE_METRICS_TOKEN": kept.get("BETTERCOMPUTE_METRICS_TOKEN")
            or directories.secret(self.home, "metrics-token"),
            "BETTERCOMPUTE_DEMO_SECRETS": str(demo.secrets(self.home)),
            "NO_PROXY": local,
            "no_proxy": local,
            "PYTHONUNBUFFERED": "1",
            processes.MARK: str(self.home),
        }
