-- name: stored
-- The rows of these nodes, and those of these ids wherever they are: a second node that claims one
-- is refused.
SELECT
    id, node_id, gpu_id, kind, mode, bookable_mode, model, product, profile, memory_mib, milli,
    index, numa_node, nvlink_group, driver, healthy, health_reason, attributes
FROM devices
WHERE node_id = ANY(%(node_ids)s::text[]) OR id = ANY(%(device_ids)s::text[])
ORDER BY id;

-- name: lock_devices
-- A mode is part of a key, so FOR UPDATE; what is booked is read after this (C11).
SELECT id
FROM devices
WHERE node_id = ANY(%(node_ids)s::text[])
ORDER BY id
FOR UPDATE;

-- name: booked_gpus
SELECT DISTINCT devices.gpu_id
FROM devices
WHERE devices.node_id = ANY(%(node_ids)s::text[])
    AND EXISTS (
        SELECT FROM device_bookings
        WHERE device_bookings.device_id = devices.id
            AND upper(device_bookings.during) > compute_now()
    );

-- name: write_devices
-- One statement, so that a card and its atoms change their mode together: C10's key is checked at
-- the end of it. A row of another node is left alone, which the caller sees by the count.
INSERT INTO devices (
    id, node_id, gpu_id, kind, mode, bookable_mode, model, product, profile, memory_mib, milli,
    index, numa_node, nvlink_group, driver, healthy, health_reason, attributes,
    quarantined, version
)
SELECT
    id, node_id, gpu_id, kind, mode, bookable_mode, model, product, profile, memory_mib, milli,
    index, numa_node, nvlink_group, driver, healthy, health_reason, attributes,
    false, 1
FROM jsonb_to_recordset(%(rows)s::jsonb) AS reported (
    id text, node_id text, gpu_id text, kind text, mode text, bookable_mode text, model text,
    product text, profile text, memory_mib bigint, milli int, index int, numa_node int,
    nvlink_group int, driver text, healthy boolean, health_reason text, attributes jsonb
)
ORDER BY id
ON CONFLICT (id) DO UPDATE
SET gpu_id = excluded.gpu_id,
    mode = excluded.mode,
    bookable_mode = excluded.bookable_mode,
    model = excluded.model,
    product = excluded.product,
    profile = excluded.profile,
    memory_mib = excluded.memory_mib,
    milli = excluded.milli,
    index = excluded.index,
    numa_node = excluded.numa_node,
    nvlink_group = excluded.nvlink_group,
    driver = excluded.driver,
    healthy = excluded.healthy,
    health_reason = excluded.health_reason,
    attributes = excluded.attributes,
    version = devices.version + 1
WHERE devices.node_id = excluded.node_id;

-- name: record
-- An import: what an agent would report first. What an agent did report stays.
INSERT INTO node_inventories (node_id, seq, body, received_at, applied_at, error)
SELECT node_id, 0, body, compute_now(), compute_now(), ''
FROM jsonb_to_recordset(%(rows)s::jsonb) AS imported (node_id text, body jsonb)
ORDER BY node_id
ON CONFLICT (node_id) DO UPDATE
SET body = excluded.body, received_at = excluded.received_at, applied_at = excluded.applied_at
WHERE node_inventories.seq = 0 AND node_inventories.body <> excluded.body;

-- name: unapplied
SELECT seq, body
FROM node_inventories
WHERE node_id = %(node_id)s AND applied_at IS NULL;

-- name: host_reserve_vcpu
SELECT (pools.policy #>> '{hostReserve,vcpu}')::int
FROM nodes
JOIN pools ON pools.id = nodes.pool_id
WHERE nodes.id = %(node_id)s;

-- name: mark_applied
-- Guarded by the sequence: a newer report that arrived meanwhile stays to be applied.
UPDATE node_inventories
SET applied_at = compute_now(), error = %(error)s
WHERE node_id = %(node_id)s AND seq = %(seq)s AND applied_at IS NULL;

-- name: any_unapplied
SELECT node_id
FROM node_inventories
WHERE applied_at IS NULL
ORDER BY node_id;
