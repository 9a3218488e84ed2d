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
