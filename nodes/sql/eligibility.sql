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
-- C13 for the chosen atoms: health, quarantine and mode; and when their node is worked on. Whoever
-- announces that locks the node first, so this statement, behind the one that shares it, sees it.
SELECT
    devices.id, devices.node_id, devices.gpu_id, devices.bookable_mode, devices.model,
    devices.profile, devices.memory_mib, devices.milli, devices.healthy, devices.quarantined,
    ARRAY(
        SELECT maintenance_windows.during
        FROM nodes
        JOIN maintenance_windows
            ON maintenance_windows.pool_id = nodes.pool_id
            AND (
                maintenance_windows.node_id IS NULL OR maintenance_windows.node_id = nodes.id
            )
        WHERE nodes.id = devices.node_id
            AND maintenance_windows.cancelled_at IS NULL
            AND upper(maintenance_windows.during) > compute_now()
        ORDER BY maintenance_windows.during
    )
FROM devices
WHERE devices.id = ANY(%(device_ids)s::text[])
ORDER BY devices.id
FOR SHARE OF devices;

-- name: keep_placements_out
-- Placements hold these rows FOR SHARE: whoever is under way is waited for, whoever comes waits.
SELECT id
FROM nodes
WHERE id = ANY(%(node_ids)s::text[])
ORDER BY id
FOR NO KEY UPDATE;

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

-- name: named
-- Whose nodes are called that, in these pools or in any.
SELECT nodes.id, nodes.name, nodes.pool_id, pools.tenant_id, nodes.state
FROM nodes
JOIN pools ON pools.id = nodes.pool_id
WHERE nodes.name = %(name)s
    AND (%(pool_ids)s::text[] IS NULL OR nodes.pool_id = ANY(%(pool_ids)s::text[]))
ORDER BY nodes.id;

-- name: nodes_of_pool
SELECT id
FROM nodes
WHERE pool_id = %(pool_id)s
    AND (%(node_id)s::text IS NULL OR id = %(node_id)s::text)
    AND state <> 'retired'
ORDER BY id;
