-- What metrics say of capacity.

-- name: gpus
-- GPUs of each pool by what becomes of them now; the largest pools first. A part of a GPU counts as
-- its share of one. What is booked is booked, in whatever state the device is.
SELECT
    pools.id, pools.name,
    coalesce(sum(atoms.gpus) FILTER (WHERE atoms.booked), 0)::float8,
    coalesce(sum(atoms.gpus) FILTER (WHERE NOT atoms.booked AND atoms.usable), 0)::float8,
    coalesce(sum(atoms.gpus) FILTER (WHERE NOT atoms.booked AND NOT atoms.usable), 0)::float8
FROM pools
LEFT JOIN LATERAL (
    SELECT
        devices.milli / 1000.0 AS gpus,
        EXISTS (
            SELECT FROM device_bookings
            WHERE device_bookings.device_id = devices.id
                AND device_bookings.during @> compute_now()
                AND device_bookings.allocation_id NOT LIKE 'cmd\_%%'
        ) AS booked,
        devices.healthy AND NOT devices.quarantined
            AND nodes.state = 'ready' AND NOT nodes.cordoned AS usable
    FROM nodes
    JOIN devices ON devices.node_id = nodes.id AND devices.bookable_mode IS NOT NULL
    WHERE nodes.pool_id = pools.id AND nodes.state <> 'retired'
) AS atoms ON true
GROUP BY pools.id, pools.name
ORDER BY coalesce(sum(atoms.gpus), 0) DESC, pools.id;
