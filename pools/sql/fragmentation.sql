-- name: hosts
-- The nodes that take work now, by kind of device: how many are alike in how many devices of the kind
-- they have that are usable, and how many of these are free.
WITH open_nodes AS (
    SELECT nodes.id
    FROM nodes
    WHERE nodes.pool_id = %(pool_id)s::text
        AND nodes.state = 'ready'
        AND NOT nodes.cordoned
        AND NOT EXISTS (
            SELECT FROM maintenance_windows
            WHERE maintenance_windows.pool_id = nodes.pool_id
                AND coalesce(maintenance_windows.node_id, nodes.id) = nodes.id
                AND maintenance_windows.cancelled_at IS NULL
                AND maintenance_windows.during @> compute_now()
        )
),
hosts AS (
    SELECT
        devices.bookable_mode, devices.model, devices.profile,
        count(*) AS total, count(*) - count(device_bookings.id) AS free
    FROM open_nodes
    JOIN devices ON devices.node_id = open_nodes.id
    LEFT JOIN device_bookings
        ON device_bookings.device_id = devices.id AND device_bookings.during @> compute_now()
    WHERE devices.bookable_mode IS NOT NULL AND devices.healthy AND NOT devices.quarantined
    GROUP BY devices.node_id, devices.bookable_mode, devices.model, devices.profile
)
SELECT bookable_mode, model, profile, total, free, count(*)
FROM hosts
GROUP BY bookable_mode, model, profile, total, free
ORDER BY bookable_mode, model, profile, total, free;
