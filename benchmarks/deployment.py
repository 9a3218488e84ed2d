"""A deployment to measure: durable services of its own, and the web server as ``up`` runs it.

No agents, and a worker and a beat only where the measurement is of what they do. Everything lives
in a temporary directory and is gone at the end.
"""

import os
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import django
from django.core.management import call_command

from bettercompute.embedded import (
    binaries,
    directories,
    ports,
    postgres,
    processes,
    services,
)
from bettercompute.embedded.interruption import Interruption
from bettercompute.embedded.programs import Programs
from bettercompute.embedded.services import Addresses
from bettercompute.embedded.supervisor import Supervisor

READY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is running, and where."""

    url: str
    database_url: str
    postgres_programs: Path


@contextmanager
def running(*, worker: bool = False) -> Iterator[Deployment]:
    """Start services and web on an empty database; stop them at the end."""
    interruption = Interruption()
    interruption.listen()
    home = directories.make_home(_home())
    supervisor = Supervisor(interruption=interruption, say=_say)
    placed = services.place(home, instead=Addresses("", ""))
    assert placed is not None, "both services are embedded"
    try:
        addresses = services.start(
            supervisor, placed, instead=Addresses("", ""), parameters=postgres.DURABLE
        )
        with ports.take_both(0, 0) as taken:
            programs = Programs(home=home, addresses=addresses)
            web = programs.web(socket=taken.web.fileno())
            _prepare(web.env)
            taken.open_to_clients()
            supervisor.start([web, *([programs.worker(), programs.beat()] if worker else [])])
            supervisor.wait_until(
                lambda: _is_ready(taken.url), what="the web server", seconds=READY_SECONDS
            )
            yield Deployment(taken.url, addresses.database_url, binaries.postgres(placed))
    finally:
        supervisor.stop()
        processes.stop_leftovers(mark=str(home), directories=directories.of_services(home))
        directories.remove(placed)


def _prepare(environment: Mapping[str, str]) -> None:
    """Make this process one of the deployment's, and the database's tables."""
    os.environ.update(environment)
    django.setup()
    call_command("migrate", interactive=False, verbosity=0)


def _home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="better-compute-bench-")).resolve()
    home.chmod(0o711)  # the services' account passes through
    return home


def _is_ready(url: str) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"{url}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _say(message: str) -> None:
    sys.stderr.write(f"{message}\n")
