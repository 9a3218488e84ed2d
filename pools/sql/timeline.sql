-- name: read
-- The pool over a span, in one statement and so at one moment: what each node has, and every booking
-- that meets the span. One row per node and cell: the atoms that differ only in their id.
WITH booked AS MATERIALIZED (
    -- By booking_by_end: what ended before the span, most of the table, is not even looked at.
    SELECT
        device_bookings.device_id,
        array_agg((extract(epoch FROM lower(device_bookings.during)) * 1000)::bigint) AS starts,
        array_agg((extract(epoch FROM upper(device_bookings.during)) * 1000)::bigint) AS ends
    FROM nodes
    JOIN devices ON devices.node_id = nodes.id
    JOIN device_bookings ON device_bookings.device_id = devices.id
    WHERE nodes.pool_id = %(pool_id)s::text
        AND upper(device_bookings.during) > %(start)s::timestamptz
        AND lower(device_bookings.during) < %(end)s::timestamptz
    GROUP BY device_bookings.device_id
),
cells AS (
    SELECT
        devices.node_id, devices.bookable_mode, devices.profile, devices.model, devices.memory_mib,
        devices.driver, devices.numa_node, devices.nvlink_group,
        array_agg(devices.id) FILTER (WHERE devices.healthy AND NOT devices.quarantined) AS usable,
        jsonb_object_agg(devices.id, jsonb_build_array(booked.starts, booked.ends)) FILTER (
            WHERE devices.healthy AND NOT devices.quarantined AND booked.device_id IS NOT NULL
        ) AS booked,
        count(*) FILTER (WHERE NOT devices.healthy OR devices.quarantined) AS unhealthy
    FROM nodes
    JOIN devices ON devices.node_id = nodes.id
    LEFT JOIN booked ON booked.device_id = devices.id
    WHERE nodes.pool_id = %(pool_id)s::text AND devices.bookable_mode IS NOT NULL
    GROUP BY
        devices.node_id, devices.bookable_mode, devices.profile, devices.model, devices.memory_mib,
        devices.driver, devices.numa_node, devices.nvlink_group
),
amounts AS (
    SELECT
        node_resources.node_id,
        jsonb_object_agg(
            node_resources.resource,
            floor(node_resources.allocatable * node_resources.ratio)::bigint
        ) AS all_of_it
    FROM nodes
    JOIN node_resources ON node_resources.node_id = nodes.id
    WHERE nodes.pool_id = %(pool_id)s::text
    GROUP BY node_resources.node_id
),
claims AS (
    SELECT
        resource_bookings.node_id,
        jsonb_agg(jsonb_build_array(
            resource_bookings.resource,
            resource_bookings.amount,
            (extract(epoch FROM lower(resource_bookings.during)) * 1000)::bigint,
            (extract(epoch FROM upper(resource_bookings.during)) * 1000)::bigint
        )) AS claimed
    FROM nodes
    JOIN resource_bookings ON resource_bookings.node_id = nodes.id
    WHERE nodes.pool_id = %(pool_id)s::text
        AND upper(resource_bookings.during) > %(start)s::timestamptz
        AND lower(resource_bookings.during) < %(end)s::timestamptz
    GROUP BY resource_bookings.node_id
),
maintenance AS (
    SELECT
        nodes.id AS node_id,
        jsonb_agg(jsonb_build_array(
            (extract(epoch FROM lower(maintenance_windows.during)) * 1000)::bigint,
            (extract(epoch FROM upper(maintenance_windows.during)) * 1000)::bigint
        )) AS windows
    FROM maintenance_windows
    JOIN nodes
        ON nodes.pool_id = maintenance_windows.pool_id
        AND (maintenance_windows.node_id IS NULL OR maintenance_windows.node_id = nodes.id)
    WHERE maintenance_windows.pool_id = %(pool_id)s::text
        AND maintenance_windows.cancelled_at IS NULL
        AND upper(maintenance_windows.during) > %(start)s::timestamptz
        AND lower(maintenance_windows.during) < %(end)s::timestamptz
    GROUP BY nodes.id
)
SELECT
    nodes.id, nodes.name, nodes.state, nodes.cordoned, nodes.labels, nodes.system_labels,
    nodes.taints, node_conditions.id IS NULL AS connected, maintenance.windows,
    amounts.all_of_it, claims.claimed,
    cells.bookable_mode, cells.profile, cells.model, cells.memory_mib, cells.driver,
    cells.numa_node, cells.nvlink_group, cells.usable, cells.booked, cells.unhealthy
FROM nodes
LEFT JOIN cells ON cells.node_id = nodes.id
LEFT JOIN amounts ON amounts.node_id = nodes.id
LEFT JOIN claims ON claims.node_id = nodes.id
LEFT JOIN maintenance ON maintenance.node_id = nodes.id
LEFT JOIN node_conditions
    ON node_conditions.node_id = nodes.id AND node_conditions.type = 'Disconnected'
WHERE nodes.pool_id = %(pool_id)s::text AND nodes.state <> 'retired'
ORDER BY nodes.id, cells.nvlink_group, cells.numa_node, cells.model, cells.memory_mib;
