"""The same SQL writes alone: what PostgreSQL does on this machine with no application before it.

One create is recorded as it happens: every statement that writes or locks, in its transactions.
Then pgbench, from the server's own wheel, plays them back with fresh ids, devices and windows.
Reads, planning, savepoints and everything of Python are left out.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from django.db import connection

from benchmarks.deployment import Deployment
from benchmarks.supply import Person, Supply
from bettercompute import clock
from bettercompute.iam import callers
from bettercompute.iam.models import Account
from bettercompute.wire.reservations import ReservationRequest
from reservations import admission, ending
from reservations.models import Reservation

HOUR_MS = 3_600_000
KEY = "bare"
_WRITES_OR_LOCKS = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM|FOR SHARE)\b")
_SAVEPOINT = re.compile(r"^(RELEASE )?SAVEPOINT", re.IGNORECASE)

_HEAD = """\\set n random(1, 9000000000000000)
\\set d random(1, {gpus})
\\set k random(1, 500000)
SELECT device_id AS device, node_id AS node FROM bench_devices WHERE number = :d \\gset
"""


@dataclass(frozen=True, slots=True)
class Bare:
    """What pgbench measured."""

    clients: int
    rate: float
    latency_ms: float
    statements: int


def measure(
    deployment: Deployment, person: Person, supply: Supply, *, clients: int, seconds: float
) -> Bare:
    """Play the writes of a create back, as fast as they go."""
    script, statements = _script(person, supply)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "create.sql"
        path.write_text(script, encoding="utf-8")
        finished = subprocess.run(
            [
                str(deployment.postgres_programs / "pgbench"),
                *("--no-vacuum", "--protocol=simple", f"--file={path}"),
                *(f"--client={clients}", "--jobs=1", f"--time={seconds:.0f}"),
                deployment.database_url,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    tps = re.search(r"^tps = ([\d.]+)", finished.stdout, re.MULTILINE)
    latency = re.search(r"^latency average = ([\d.]+)", finished.stdout, re.MULTILINE)
    if tps is None or latency is None or finished.returncode != 0:
        raise RuntimeError(f"pgbench failed: {finished.stdout}\n{finished.stderr[-2_000:]}")
    _forget(supply)
    return Bare(clients, float(tps[1]), float(latency[1]), statements)


def _script(person: Person, supply: Supply) -> tuple[str, int]:
    """One create as a script of pgbench; answers it and how many statements it has."""
    _number_devices(supply)
    with _recorded() as recorded:
        reservation = _create(person, supply)
    allocation = reservation.allocations.get()
    varying = {
        reservation.pk: "rsv_bare:n",
        allocation.pk: "alloc_bare:n",
        allocation.device_ids[0]: ":device",
        allocation.node_id: ":node",
        reservation.idempotency_key: "key_bare:n",
    }
    transactions: dict[int, list[str]] = {}
    for block, text in recorded:
        transactions.setdefault(block, []).append(_vary(text, varying, reservation))
    parts = [_HEAD.format(gpus=supply.gpus)]
    for statements in transactions.values():
        parts += ["BEGIN;", *(f"{text};" for text in statements), "COMMIT;"]
    ending.release(_caller(person), reservation_id=reservation.pk)
    return "\n".join(parts) + "\n", len(recorded)


def _vary(text: str, varying: dict[str, str], reservation: Reservation) -> str:
    for value, variable in varying.items():
        text = text.replace(value, variable)
    text = re.sub(r"evt_\w+", "evt_bare:n", text)
    for instant in (reservation.starts_at, reservation.ends_at):
        literal = f"'{instant}'"
        text = text.replace(literal, f"(timestamptz {literal} + :k * interval '1 minute')")
    return text


def _create(person: Person, supply: Supply) -> Reservation:
    body = {
        "tenantId": person.tenant_id,
        "poolId": supply.pool_id,
        "devices": [{"class": "gpu", "count": 1}],
        "start": clock.now_ms() // HOUR_MS * HOUR_MS + 1_000 * HOUR_MS,
        "duration": "1m",
    }
    wanted = ReservationRequest.model_validate_json(json.dumps(body))
    key = f"{KEY}-{Reservation.objects.count()}"
    admitted = admission.admit(_caller(person), wanted, idempotency_key=key)
    return Reservation.objects.get(pk=admitted.reservation_id)


def _caller(person: Person) -> callers.Caller:
    return callers.for_tenant(Account.objects.get(pk=person.account_id), person.tenant_id)


@contextmanager
def _recorded() -> Iterator[list[tuple[int, str]]]:
    """Every statement that writes or locks, as text, with the transaction it ran in."""
    found: list[tuple[int, str]] = []

    def record(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        raw = context["connection"].connection
        text = psycopg.ClientCursor(raw).mogrify(sql, params)
        blocks = context["connection"].atomic_blocks
        if _WRITES_OR_LOCKS.search(text) and not _SAVEPOINT.match(text) and blocks:
            found.append((id(blocks[0]), text))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(record):
        yield found


def _number_devices(supply: Supply) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bench_devices")
        cursor.execute(
            "CREATE TABLE bench_devices AS SELECT row_number() OVER () AS number,"
            " devices.id AS device_id, node_id FROM devices JOIN nodes ON nodes.id = node_id"
            " WHERE pool_id = %s AND bookable_mode = 'whole'",
            [supply.pool_id],
        )
        cursor.execute("CREATE UNIQUE INDEX ON bench_devices (number)")
        cursor.execute("ANALYZE bench_devices")


def _forget(supply: Supply) -> None:
    """Take away what was played back, so that the next run starts from the same tables."""
    statements = (
        "DELETE FROM device_bookings WHERE starts_with(allocation_id, 'alloc_bare')",
        "DELETE FROM resource_bookings WHERE starts_with(allocation_id, 'alloc_bare')",
        "DELETE FROM assignments WHERE starts_with(allocation_id, 'alloc_bare')",
        "DELETE FROM allocations WHERE starts_with(id, 'alloc_bare')",
        "DELETE FROM reservations WHERE starts_with(id, 'rsv_bare')",
        "DELETE FROM work_queue WHERE starts_with(key, 'rsv_bare')",
        "DELETE FROM quota_charges WHERE starts_with(owner_key, 'rsv_bare')",
        "UPDATE node_resources SET allocated = 0",
        "UPDATE quota_usage SET used = 0",
    )
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
