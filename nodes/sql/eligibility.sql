-- name: lock_nodes
-- C13: a cordon, taint or silence is an update of these rows, so whoever commits second sees the
-- first. FOR SHARE re-reads a row that changed while it waited, so what comes back is current. A
-- transaction never updates a row that it locked this way.
SELECT
    id, pool_id, state, cordoned, labels, system_labels, taints, platform_trusted, version
FROM nodes
WHERE id = ANY(%(node_ids)s::text[])
ORDER BY id
FOR SHARE;

-- name: lock_devices
-- C13 for the chosen atoms: health, quarantine and mode.
SELECT
    id, node_id, gpu_id, bookable_mode, model, profile, memory_mib, milli, healthy, quarantined
FROM devices
WHERE id = ANY(%(device_ids)s::text[])
ORDER BY id
FOR SHARE;

-- name: lock_node_for_change
-- C2: a verb without If-Match locks first, so that another change meanwhile is no conflict.
SELECT
    id, pool_id, state, cordoned, labels, system_labels, taints, platform_trusted, version
FROM nodes
WHERE id = %(node_id)s
FOR NO KEY UPDATE;

-- name: change_node
UPDATE nodes
SET cordoned = %(cordoned)s,
    labels = %(labels)s::jsonb,
    system_labels = %(system_labels)s::jsonb,
    taints = %(taints)s::jsonb,
    platform_trusted = %(platform_trusted)s,
    version = version + 1
WHERE id = %(node_id)s AND version = %(version)s
RETURNING version;

-- name: lock_devices_for_change
SELECT id, node_id
FROM devices
WHERE id = ANY(%(device_ids)s::text[])
ORDER BY id
FOR NO KEY UPDATE;

-- name: set_quarantine
UPDATE devices
SET quarantined = %(quarantined)s, version = version + 1
WHERE id = ANY(%(device_ids)s::text[]) AND quarantined <> %(quarantined)s
RETURNING id;

-- name: places
-- Whose nodes these are: for events and wake-ups, so it takes no lock.
SELECT nodes.id, nodes.name, nodes.pool_id, pools.tenant_id, nodes.state
FROM nodes
JOIN pools ON pools.id = nodes.pool_id
WHERE nodes.id = ANY(%(node_ids)s::text[])
ORDER BY nodes.id;
