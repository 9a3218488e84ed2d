-- name: read
-- The pool (or, narrowed, the nodes that a plain request would most likely take: the best fit
-- first, equals at random, C18) for one window, in one statement and so at one moment. One row per
-- node and cell: the atoms that differ only in their id.
WITH booked AS MATERIALIZED (
    -- By booking_by_end: what ended before the window, most of the table, is not even looked at.
    SELECT
        device_bookings.device_id,
        (extract(epoch FROM max(upper(device_bookings.during))) * 1000)::bigint AS until
    FROM nodes
    JOIN devices ON devices.node_id = nodes.id
    JOIN device_bookings ON device_bookings.device_id = devices.id
    WHERE nodes.pool_id = %(pool_id)s::text
        AND upper(device_bookings.during) > %(start)s::timestamptz
        AND lower(device_bookings.during) < %(end)s::timestamptz
    GROUP BY device_bookings.device_id
),
likeliest AS (
    SELECT nodes.id
    FROM nodes
    JOIN devices ON devices.node_id = nodes.id
    WHERE %(narrow)s::boolean
        AND nodes.pool_id = %(pool_id)s::text
        AND nodes.state = 'ready'
        AND NOT nodes.cordoned
        AND (%(tainted)s::boolean OR nodes.taints = '[]'::jsonb)
        AND devices.bookable_mode = %(mode)s::text
        AND devices.profile = %(profile)s::text
        AND (%(models)s::text[] IS NULL OR lower(devices.model) = ANY(%(models)s::text[]))
        AND devices.healthy
        AND NOT devices.quarantined
        AND NOT EXISTS (SELECT FROM booked WHERE booked.device_id = devices.id)
    GROUP BY nodes.id
    HAVING count(*) >= %(count)s::int
    ORDER BY least(count(*), %(most)s::int) DESC, count(*), random()
    LIMIT %(limit)s::int
),
chosen AS (
    SELECT id FROM likeliest
    UNION ALL
    SELECT id FROM nodes WHERE NOT %(narrow)s::boolean AND pool_id = %(pool_id)s::text
),
cells AS (
    SELECT
        devices.node_id, devices.bookable_mode, devices.profile, devices.model, devices.memory_mib,
        devices.driver, devices.numa_node, devices.nvlink_group,
        array_agg(devices.id) FILTER (
            WHERE devices.healthy AND NOT devices.quarantined AND booked.until IS NULL
        ) AS free,
        array_agg(booked.until ORDER BY booked.until) FILTER (
            WHERE devices.healthy AND NOT devices.quarantined AND booked.until IS NOT NULL
        ) AS busy_until,
        count(*) FILTER (WHERE NOT devices.healthy OR devices.quarantined) AS unhealthy
    FROM chosen
    JOIN devices ON devices.node_id = chosen.id
    LEFT JOIN booked ON booked.device_id = devices.id
    WHERE devices.bookable_mode IS NOT NULL
    GROUP BY
        devices.node_id, devices.bookable_mode, devices.profile, devices.model, devices.memory_mib,
        devices.driver, devices.numa_node, devices.nvlink_group
),
amounts AS (
    -- What is free at the window's peak. `allocated` is the peak over all time: where it leaves
    -- enough, that is certain, and the window's own peak, which costs a look at the bookings of
    -- that host, is not needed.
    SELECT
        node_resources.node_id,
        jsonb_object_agg(node_resources.resource, floor(
            node_resources.allocatable * node_resources.ratio
        )::bigint - CASE
            WHEN node_resources.allocated = 0 THEN 0
            WHEN floor(node_resources.allocatable * node_resources.ratio)
                - node_resources.allocated >= needs.amount THEN node_resources.allocated
            ELSE resource_peak(
                node_resources.node_id,
                node_resources.resource,
                tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
            )
        END) AS free
    FROM chosen
    JOIN node_resources ON node_resources.node_id = chosen.id
    JOIN unnest(%(resources)s::text[], %(amounts)s::bigint[]) AS needs (resource, amount)
        ON needs.resource = node_resources.resource
    GROUP BY node_resources.node_id
)
SELECT
    nodes.id, nodes.name, nodes.state, nodes.cordoned, nodes.labels, nodes.system_labels,
    nodes.taints, node_conditions.id IS NULL AS connected, amounts.free,
    cells.bookable_mode, cells.profile, cells.model, cells.memory_mib, cells.driver,
    cells.numa_node, cells.nvlink_group, cells.free, cells.busy_until, cells.unhealthy
FROM chosen
JOIN nodes ON nodes.id = chosen.id
LEFT JOIN cells ON cells.node_id = nodes.id
LEFT JOIN amounts ON amounts.node_id = nodes.id
LEFT JOIN node_conditions
    ON node_conditions.node_id = nodes.id AND node_conditions.type = 'Disconnected'
WHERE nodes.state <> 'retired'
ORDER BY nodes.id, cells.nvlink_group, cells.numa_node, cells.model, cells.memory_mib;
