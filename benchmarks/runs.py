"""The measurements on one pool, one after the other."""

from collections.abc import Sequence

from django.db import connection

from benchmarks import bare, cpu
from benchmarks.deployment import Deployment
from benchmarks.load import HOUR_MS, Load
from benchmarks.report import PoolResult, Row
from benchmarks.supply import Person, Supply
from bettercompute import clock

WARM_UP_SECONDS = 3.0


def measure(
    here: Deployment,
    person: Person,
    supply: Supply,
    *,
    clients: Sequence[int],
    seconds: float,
) -> PoolResult:
    """Create, release and preview over HTTP; the bare writes right beside each."""
    _analyze()
    load = _load(here, person, supply, "warm-up")
    _, made = load.create(clients=max(clients), seconds=WARM_UP_SECONDS)
    load.release(made, clients=4)
    preview = load.preview(clients=1, seconds=seconds / 2)
    rows = []
    for number in clients:
        load = _load(here, person, supply, f"measured-{supply.nodes}")
        with cpu.counted() as spent:
            created, made = load.create(clients=number, seconds=seconds)
        released = load.release(made, clients=number)
        alone = bare.measure(here, person, supply, clients=number, seconds=seconds)
        rows.append(Row(created, spent, released, alone))
    return PoolResult(supply, preview, rows)


def _load(here: Deployment, person: Person, supply: Supply, name: str) -> Load:
    base_ms = clock.now_ms() // HOUR_MS * HOUR_MS
    return Load(here.url, person, supply, base_ms, f"{name}-{supply.pool_id}")


def _analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
