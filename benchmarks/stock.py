"""Large pools for the planner's figures: one host is imported, the others are its copies.

What books them is written as rows too, since no client could make a pool 95 % full in the time of a
benchmark. Everything that the product reads of it is as the use cases would have written it.
"""

from dataclasses import dataclass

from django.db import connection

from benchmarks import supply
from benchmarks.supply import Supply

# Of 100 nodes: 94 full, 1 half full, 5 whole and free. So 95 % of the GPUs are taken, and what is
# free is partly in whole nodes and partly not.
FULL, HALF = 94, 1

_COPY_NODES = """
INSERT INTO nodes (
    id, name, state, cordoned, labels, system_labels, taints, platform_trusted, version, pool_id
)
SELECT
    nodes.id || '-' || n, 'host-' || lpad(n::text, 6, '0'), state, cordoned,
    labels || jsonb_build_object('topology.bc.dev/rack', 'rack-' || n / 32),
    system_labels, taints, platform_trusted, version, pool_id
FROM nodes, generate_series(2, %(nodes)s) AS n
WHERE pool_id = %(pool_id)s
"""

_COPY_DEVICES = """
INSERT INTO devices (
    id, kind, mode, bookable_mode, model, product, profile, memory_mib, milli, index, numa_node,
    nvlink_group, driver, healthy, health_reason, quarantined, attributes, version, gpu_id, node_id
)
SELECT
    devices.id || '-' || n, kind, mode, bookable_mode, model, product, profile, memory_mib, milli,
    index, index / 4, 0, driver, healthy, health_reason, quarantined, attributes,
    devices.version, gpu_id || '-' || n, node_id || '-' || n
FROM devices
JOIN nodes ON nodes.id = devices.node_id
CROSS JOIN generate_series(2, %(nodes)s) AS n
WHERE nodes.pool_id = %(pool_id)s AND EXISTS (SELECT FROM nodes WHERE id = node_id || '-' || n)
"""

_COPY_RESOURCES = """
INSERT INTO node_resources (resource, allocatable, ratio, allocated, ceiling, node_id)
SELECT resource, allocatable, ratio, allocated, ceiling, node_id || '-' || n
FROM node_resources
JOIN nodes ON nodes.id = node_resources.node_id
CROSS JOIN generate_series(2, %(nodes)s) AS n
WHERE nodes.pool_id = %(pool_id)s AND EXISTS (SELECT FROM nodes WHERE id = node_id || '-' || n)
"""

# Now and next week alike. The ends differ; every second host is held as one, the others by cards.
_FILL = """
WITH numbered AS (
    SELECT id, row_number() OVER (ORDER BY name) %% 100 AS place
    FROM nodes
    WHERE pool_id = %(pool_id)s
),
taken AS (
    SELECT
        devices.id, devices.node_id,
        63 & hashtext(
            CASE WHEN numbered.place %% 2 = 0 THEN devices.id ELSE numbered.id END
        ) AS spread
    FROM numbered
    JOIN devices ON devices.node_id = numbered.id
    WHERE numbered.place < %(full)s
        OR numbered.place < %(full)s + %(half)s AND devices.index < 4
)
INSERT INTO device_bookings (allocation_id, during, device_id)
SELECT
    'alloc_' || weeks || '_' || taken.node_id,
    tstzrange(
        date_trunc('hour', compute_now()) - interval '1 hour' + weeks * interval '1 week',
        date_trunc('hour', compute_now()) + weeks * interval '1 week'
            + (24 + spread) * interval '1 hour'
    ),
    taken.id
FROM taken, generate_series(0, 1) AS weeks
ORDER BY taken.id
"""

# Short bookings, one after the other, from the twelfth day on: what `earliest` has to pass.
_BOOK_AHEAD = """
WITH numbered AS (
    SELECT devices.id, row_number() OVER (ORDER BY devices.id) AS place
    FROM devices
    JOIN nodes ON nodes.id = devices.node_id
    WHERE nodes.pool_id = %(pool_id)s
)
INSERT INTO device_bookings (allocation_id, during, device_id)
SELECT
    'alloc_ahead_' || n,
    tstzrange(starts_at, starts_at + interval '4 hours'),
    numbered.id
FROM generate_series(0, %(bookings)s - 1) AS n
JOIN numbered ON numbered.place = 1 + n %% %(devices)s
CROSS JOIN LATERAL (
    SELECT date_trunc('hour', compute_now()) + interval '12 days' + interval '5 hours'
        * (n / %(devices)s) AS starts_at
) AS turn
"""


@dataclass(frozen=True, slots=True)
class Stock:
    """A pool, and what books it."""

    supply: Supply
    full: bool
    ahead: int = 0

    @property
    def name(self) -> str:
        """As the table has it."""
        words = "95 % full" if self.full else "empty"
        return f"{words}, {self.ahead:,} bookings ahead" if self.ahead else words


def pool(nodes: int, *, full: bool, ahead: int = 0) -> Stock:
    """A pool of so many hosts of eight cards."""
    one = supply.h100s(1, name=f"planner-{nodes}-{full}-{ahead}")
    values = {"pool_id": one.pool_id, "nodes": nodes}
    _run(_COPY_NODES, values)
    _run(_COPY_DEVICES, values)
    _run(_COPY_RESOURCES, values)
    if full:
        _run(_FILL, {"pool_id": one.pool_id, "full": FULL, "half": HALF})
    if ahead:
        devices = nodes * one.gpus
        _run(_BOOK_AHEAD, {"pool_id": one.pool_id, "bookings": ahead, "devices": devices})
    _run("ANALYZE", {})
    return Stock(Supply(one.pool_id, one.name, nodes, nodes * one.gpus), full, ahead)


def forget(stock: Stock) -> None:
    """Take the pool away again, so that the next one is measured alone."""
    ours = "SELECT id FROM nodes WHERE pool_id = %(pool_id)s"
    devices = f"SELECT id FROM devices WHERE node_id IN ({ours})"  # no input in it
    for statement in (
        f"DELETE FROM device_bookings WHERE device_id IN ({devices})",
        f"DELETE FROM resource_bookings WHERE node_id IN ({ours})",
        f"DELETE FROM devices WHERE node_id IN ({ours})",
        f"DELETE FROM node_resources WHERE node_id IN ({ours})",
    ):
        _run(statement, {"pool_id": stock.supply.pool_id})
    _run("ANALYZE", {})


def _run(statement: str, values: dict[str, object]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
