"""A whole deployment as real processes on services of its own, for tests of faults.

``with deployment.started(planes=2) as running:`` gives web, gateway, worker and beat of each
control plane, the simulated nodes, PostgreSQL and Valkey, each of which may be killed, stopped and
started again. Nothing is shared with the suite's own services, and time is real.
"""

import contextlib
import logging
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from bettercompute.embedded import directories, postgres, processes, services
from bettercompute.embedded.postgres import Postgres
from bettercompute.embedded.programs import Programs
from bettercompute.embedded.services import Addresses
from bettercompute.embedded.valkey import Valkey
from tests.support import pgbouncer
from tests.support.deployment import delivered, running
from tests.support.deployment.delivered import Delivery
from tests.support.deployment.operator import Operator
from tests.support.deployment.running import Nursery, Process, PythonProcess, Server
from tests.support.pgbouncer import Pooler

SETTINGS = "tests.support.deployment.settings"
CLIENT_SECONDS_MAX = 30.0

_LEADS = (
    "SELECT 1 FROM leases WHERE starts_with(name, 'shard:') AND note LIKE %s"
    " AND expires_at > compute_now()"
)
_CONNECTED = (
    "SELECT count(*) FROM node_sessions AS s JOIN node_inventories AS i USING (node_id)"
    " WHERE s.connected_at >= %s AND i.applied_at IS NOT NULL"
)


class Database:
    """A connection of the test's own to PostgreSQL itself, opened again whenever it broke."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def sql(self, query: str, *params: object) -> list[tuple[Any, ...]]:
        """Run one statement by itself."""
        with self._lock:
            if self._connection is None or self._connection.closed or self._connection.broken:
                self._connection = connect(self._url)
            cursor = self._connection.execute(query.encode(), params or None)
            return cursor.fetchall() if cursor.description is not None else []

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()


def connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection that a test sees by its name."""
    return psycopg.connect(url, autocommit=True, connect_timeout=5, application_name="test")


@dataclass(frozen=True, slots=True)
class Plane:
    """One control plane: what `better-compute up` starts once."""

    web: Server
    gateway: Server
    worker: PythonProcess
    beat: PythonProcess

    @property
    def processes(self) -> list[Process]:
        return [self.gateway, self.web, self.worker, self.beat]

    def start(self) -> None:
        """Start what is down, and wait until all of it is ready."""
        running.start_all([each for each in self.processes if not each.alive()])

    def kill(self) -> None:
        """SIGKILL to all of it, as when its host loses power."""
        for each in self.processes:
            each.kill()

    def stop(self) -> None:
        """A clean stop."""
        for each in reversed(self.processes):
            each.stop()


@dataclass(slots=True)
class Deployment:
    """What a test has in its hands."""

    home: Path
    database_url: str  # as its programs have it; by way of the pooler, where there is one
    direct_url: str
    redis_url: str
    postgres: Process
    valkey: Process
    pooler: Pooler | None
    planes: list[Plane]
    agents: PythonProcess
    operator: Operator
    database: Database
    tokens: dict[str, str]
    tenants: dict[str, str]
    pool_id: str
    _clients: list[httpx2.Client] = field(default_factory=list)

    @property
    def token(self) -> str:
        """Of alice, administrator of acme."""
        return self.tokens["alice"]

    @property
    def tenant_id(self) -> str:
        return self.tenants["alice"]

    def client(self, plane: int = 0, *, who: str = "alice") -> httpx2.Client:
        """A client with the token of one of the cast: alice, mallory or olga (an operator)."""
        made = httpx2.Client(
            base_url=self.planes[plane].web.url,
            headers={"Authorization": f"Bearer {self.tokens[who]}"},
            timeout=CLIENT_SECONDS_MAX,
            trust_env=False,
        )
        self._clients.append(made)
        return made

    def sql(self, query: str, *params: object) -> list[tuple[Any, ...]]:
        """Rows of one statement on PostgreSQL itself, in a transaction of its own."""
        return self.database.sql(query, *params)

    def violations(self) -> list[str]:
        """Every invariant that does not hold, and every finding of the self-check."""
        return [*self.invariants(), *self.findings()]

    def invariants(self) -> list[str]:
        """What must hold at any moment, whatever is late."""
        return self.operator.ask("invariants")

    def held(self) -> list[str]:
        """Whatever is held of anything: nothing, once every reservation has ended."""
        return self.operator.ask("held")

    def findings(self) -> list[str]:
        """What the product's self-check says, of lateness too."""
        return self.operator.ask("findings")

    def wrong(self) -> dict[str, str]:
        """What an operator is told by the API that is not well."""
        answer = self.client(who="olga").get("/api/v1/selfcheck")
        if answer.status_code != 200:
            return {"none": answer.text}
        return {
            check["check"]: finding["message"]
            for check in answer.json()["checks"]
            for finding in check["findings"]
        }

    def deliveries(self) -> list[Delivery]:
        """What the sink of the workers was told, in order."""
        return list(delivered.read(delivered.path(self.home)))

    def undelivered(self) -> list[str]:
        """The ids of events that the sink was never told of."""
        told = {each.id for each in self.deliveries()}
        return [key for (key,) in self.sql("SELECT id FROM outbox") if key not in told]

    def log(self, name: str) -> str:
        """What a program said: ``web``, ``worker-2``, ``postgres``."""
        return (self.home / "logs" / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def close_clients(self) -> None:
        for client in self._clients:
            client.close()


@dataclass(frozen=True, slots=True)
class _Services:
    """What the programs of every control plane share."""

    postgres: Process
    valkey: Process
    addresses: Addresses


@contextlib.contextmanager
def started(
    *,
    planes: int = 1,
    nodes: int = 4,
    durable: bool = False,
    pooled: bool = False,
    disk_mib: int | None = None,
) -> Iterator[Deployment]:
    """A deployment that is ready: a reservation made then is bound at once.

    ``durable`` has PostgreSQL keep what it acknowledged through a crash; ``pooled`` puts PgBouncer
    in transaction mode between it and all programs, and skips the test where there is none;
    ``disk_mib`` puts all of its files on a disk of that size, and skips the test where this user
    may not mount one.
    """
    if pooled:
        pgbouncer.require()
    # One line a request of a load is no log.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    home = Path(tempfile.mkdtemp(prefix="better-compute-")).resolve()
    with ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, home, ignore_errors=True)
        if disk_mib is not None:
            cleanup.enter_context(_disk(home, mib=disk_mib))
        home.chmod(0o711)  # the services' account passes through
        nursery = Nursery()
        cleanup.callback(nursery.close)
        yield _build(
            home, nursery, cleanup, planes=planes, nodes=nodes, durable=durable, pooled=pooled
        )


def _build(
    home: Path,
    nursery: Nursery,
    cleanup: ExitStack,
    *,
    planes: int,
    nodes: int,
    durable: bool,
    pooled: bool,
) -> Deployment:
    served = _serve(home, nursery, cleanup, durable=durable)
    direct = served.addresses
    pooler = cleanup.enter_context(pgbouncer.pooled(direct.database_url)) if pooled else None
    given = replace(direct, database_url=pooler.url) if pooler else direct

    operator = Operator(
        nodes=nodes,
        env=Programs(home, direct, settings=SETTINGS).environment(),
        log=home / "logs" / "operator.log",
    )
    cleanup.callback(operator.close)
    operator.wait_until_prepared()
    own = Database(direct.database_url)
    cleanup.callback(own.close)
    made = [
        _plane(Programs(home, given, _suffix(number), SETTINGS), nursery, own)
        for number in range(planes)
    ]
    agents = _agents(Programs(home, given, settings=SETTINGS), made, nursery, own, nodes=nodes)
    deployment = Deployment(
        home=home,
        database_url=given.database_url,
        direct_url=direct.database_url,
        redis_url=given.redis_url,
        postgres=served.postgres,
        valkey=served.valkey,
        pooler=pooler,
        planes=made,
        agents=agents,
        operator=operator,
        database=own,
        tokens=operator.seeded["tokens"],
        tenants=operator.seeded["tenants"],
        pool_id=operator.seeded["pool"],
    )
    everything = [agents, *(each for plane in made for each in plane.processes)]
    cleanup.enter_context(running.closing([s for p in made for s in (p.web, p.gateway)]))
    cleanup.callback(_kill, everything)
    cleanup.callback(deployment.close_clients)
    running.start_all(everything)
    return deployment


def _serve(home: Path, nursery: Nursery, cleanup: ExitStack, *, durable: bool) -> _Services:
    """PostgreSQL and Valkey, ready."""
    parameters = postgres.DURABLE if durable else postgres.DISPOSABLE
    placed = services.place(
        directories.make_home(home), instead=Addresses(database_url="", redis_url="")
    )
    assert placed is not None
    cleanup.callback(directories.remove, placed)
    cleanup.callback(
        processes.stop_leftovers, mark=str(home), directories=directories.of_services(home)
    )
    env = services.environment({})
    database, broker = Postgres(placed, parameters=parameters, env=env), Valkey(placed, env=env)
    database.prepare()
    kept = [_service(each, nursery) for each in (database, broker)]
    for service in reversed(kept):
        cleanup.callback(service.stop)
    running.start_all(kept)
    return _Services(*kept, Addresses(database.url, broker.url))


@contextlib.contextmanager
def _disk(at: Path, *, mib: int) -> Iterator[None]:
    """A small disk of its own at this directory."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(at)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no small disk can be mounted here: {error}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True, capture_output=True)


def _service(service: Postgres | Valkey, nursery: Nursery) -> Process:
    return Process(service, nursery, name=service.name, ready=lambda _: service.is_ready())


def _plane(programs: Programs, nursery: Nursery, own: Database) -> Plane:
    def leads(process: Process) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            return bool(own.sql(_LEADS, f"% pid {process.pid}"))
        return False

    return Plane(
        web=Server(lambda number: programs.web(socket=number), nursery),
        gateway=Server(lambda number: programs.gateway(socket=number), nursery),
        worker=PythonProcess(programs.worker(), nursery, ready=leads),
        beat=PythonProcess(programs.beat(), nursery),
    )


def _agents(
    programs: Programs, planes: Sequence[Plane], nursery: Nursery, own: Database, *, nodes: int
) -> PythonProcess:
    ((since,),) = own.sql("SELECT compute_now()")

    def connected(_: Process) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            return bool(own.sql(_CONNECTED, since)[0][0] >= nodes)
        return False

    program = programs.simulated_nodes(
        count=nodes, gateways=[plane.gateway.url for plane in planes]
    )
    return PythonProcess(program, nursery, ready=connected)


def _kill(everything: Sequence[Process]) -> None:
    """The end of a test needs no farewells."""
    for each in everything:
        each.kill()


def _suffix(number: int) -> str:
    return "" if number == 0 else f"-{number + 1}"
