-- name: lock_gpu
-- C11: the card and every atom of it, those of other layouts included.
SELECT
    id, node_id, gpu_id, kind, mode, bookable_mode, model, product, profile, memory_mib, milli,
    index, numa_node, nvlink_group, driver, healthy, health_reason, attributes
FROM devices
WHERE gpu_id = %(gpu_id)s
ORDER BY id
FOR UPDATE;

-- name: this_millisecond
SELECT date_trunc('milliseconds', compute_now());
