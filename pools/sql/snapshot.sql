-- name: likeliest
-- The nodes of a pool that a request would most likely take, for one window, in one statement and
-- so at one moment. One row per node and cell (the atoms that differ only in their
-- id), and at least one row, which says whether these are all that have enough devices free.
--
-- Nodes are looked at in the order of a ring, from a random point on, and only as many as
-- it takes: `sample` of them, or until `enough` are found. How many nodes and bookings there are
-- beside these does not matter. The best fit comes first, equals at random (C18).
WITH ring AS (
    (
        SELECT id, labels, 0 AS lap, hashtextextended(id, 0) AS turn
        FROM nodes
        WHERE pool_id = %(pool_id)s::text
            AND state = 'ready'
            AND NOT cordoned
            AND hashtextextended(id, 0) >= CAST(%(turn)s AS bigint)
            AND (%(tainted)s::boolean OR NOT taints @? '$[*] ? (!(@.effect == "PreferNoSchedule"))')
            AND labels @> %(labels)s::jsonb
            AND system_labels @> %(system_labels)s::jsonb
            AND system_labels ?& %(labelled)s::text[]
        ORDER BY turn
        LIMIT %(sample)s::int
    )
    UNION ALL
    (
        SELECT id, labels, 1, hashtextextended(id, 0) AS turn
        FROM nodes
        WHERE pool_id = %(pool_id)s::text
            AND state = 'ready'
            AND NOT cordoned
            AND hashtextextended(id, 0) < CAST(%(turn)s AS bigint)
            AND (%(tainted)s::boolean OR NOT taints @? '$[*] ? (!(@.effect == "PreferNoSchedule"))')
            AND labels @> %(labels)s::jsonb
            AND system_labels @> %(system_labels)s::jsonb
            AND system_labels ?& %(labelled)s::text[]
        ORDER BY turn
        LIMIT %(sample)s::int
    )
    ORDER BY lap, turn
    LIMIT %(sample)s::int
),
-- Of a gang that stands together, all nodes of the places at which the ring's first nodes stand.
together AS (
    SELECT id FROM ring WHERE %(place)s::text IS NULL
    UNION ALL
    SELECT id
    FROM nodes
    WHERE %(place)s::text IS NOT NULL
        AND pool_id = %(pool_id)s::text
        AND state = 'ready'
        AND NOT cordoned
        AND labels ->> %(place)s::text IN (SELECT labels ->> %(place)s::text FROM ring)
),
worked_on AS MATERIALIZED (
    -- Maintenance that meets the window, by node; of the whole pool under the empty name.
    SELECT
        coalesce(maintenance_windows.node_id, '') AS node_id,
        (extract(epoch FROM max(upper(maintenance_windows.during))) * 1000)::bigint AS until
    FROM maintenance_windows
    WHERE maintenance_windows.pool_id = %(pool_id)s::text
        AND maintenance_windows.cancelled_at IS NULL
        AND upper(maintenance_windows.during) > %(start)s::timestamptz
        AND lower(maintenance_windows.during) < %(end)s::timestamptz
    GROUP BY maintenance_windows.node_id
),
able AS MATERIALIZED (
    SELECT together.id, atoms.free
    FROM together
    CROSS JOIN LATERAL (
        SELECT count(*) AS free
        FROM devices
        WHERE devices.node_id = together.id
            AND devices.bookable_mode = %(mode)s::text
            AND devices.profile = %(profile)s::text
            AND (%(models)s::text[] IS NULL OR lower(devices.model) = ANY(%(models)s::text[]))
            AND devices.healthy
            AND NOT devices.quarantined
            -- Bookings of a device never overlap: the first to end behind the start decides.
            AND coalesce((
                SELECT lower(device_bookings.during) >= %(end)s::timestamptz
                FROM device_bookings
                WHERE device_bookings.device_id = devices.id
                    AND upper(device_bookings.during) > %(start)s::timestamptz
                ORDER BY upper(device_bookings.during)
                LIMIT 1
            ), true)
    ) AS atoms
    WHERE atoms.free >= %(count)s::int
        -- With `carries`, what the host has left of these resources must do for the least that the
        -- request books there; a host that counts none of them books none.
        AND NOT EXISTS (
            SELECT
            FROM unnest(%(resources)s::text[], %(carries)s::bigint[]) AS needs (resource, amount)
            LEFT JOIN node_resources
                ON node_resources.node_id = together.id
                AND node_resources.resource = needs.resource
            WHERE needs.amount > 0
                AND CASE
                    WHEN node_resources.resource IS NULL THEN %(asked)s::boolean OR EXISTS (
                        SELECT
                        FROM node_resources
                        WHERE node_resources.node_id = together.id
                            AND node_resources.resource = ANY(%(resources)s::text[])
                    )
                    WHEN floor(node_resources.allocatable * node_resources.ratio)
                        - node_resources.allocated >= needs.amount THEN false
                    ELSE floor(node_resources.allocatable * node_resources.ratio) - resource_peak(
                        node_resources.node_id,
                        node_resources.resource,
                        tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
                    ) < needs.amount
                END
        )
        AND NOT EXISTS (SELECT FROM worked_on WHERE worked_on.node_id = together.id)
        AND NOT EXISTS (SELECT FROM worked_on WHERE worked_on.node_id = '')
    LIMIT %(enough)s::int
),
chosen AS MATERIALIZED (
    SELECT id
    FROM able
    ORDER BY least(free, %(most)s::int) DESC, free, random()
    LIMIT %(limit)s::int
),
cells AS (
    SELECT
        devices.node_id, devices.bookable_mode, devices.profile, devices.model, devices.memory_mib,
        devices.driver, devices.numa_node, devices.nvlink_group,
        array_agg(devices.id) FILTER (
            WHERE devices.healthy AND NOT devices.quarantined AND booked.until IS NULL
        ) AS free,
        array_agg((extract(epoch FROM booked.until) * 1000)::bigint ORDER BY booked.until) FILTER (
            WHERE devices.healthy AND NOT devices.quarantined AND booked.until IS NOT NULL
        ) AS busy_until,
        count(*) FILTER (WHERE NOT devices.healthy OR devices.quarantined) AS unhealthy
    FROM chosen
    JOIN devices ON devices.node_id = chosen.id
    LEFT JOIN LATERAL (
        SELECT lower(device_bookings.during) AS begins, upper(device_bookings.during) AS until
        FROM device_bookings
        WHERE device_bookings.device_id = devices.id
            AND upper(device_bookings.during) > %(start)s::timestamptz
        ORDER BY upper(device_bookings.during)
        LIMIT 1
    ) AS booked ON booked.begins < %(end)s::timestamptz
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
    around.answer,
    nodes.id, nodes.name, nodes.state, nodes.cordoned, nodes.labels, nodes.system_labels,
    nodes.taints, node_conditions.id IS NULL AS connected, NULL AS worked_on_until, amounts.free,
    NULL AS capacity,
    cells.bookable_mode, cells.profile, cells.model, cells.memory_mib, cells.driver,
    cells.numa_node, cells.nvlink_group, cells.free, cells.busy_until, cells.unhealthy
FROM (
    SELECT
        (SELECT count(*) FROM ring) < %(sample)s::int
        AND (SELECT count(*) FROM able) < least(%(enough)s::int, %(limit)s::int) AS answer
) AS around
LEFT JOIN (
    chosen
    JOIN nodes ON nodes.id = chosen.id
    LEFT JOIN cells ON cells.node_id = nodes.id
    LEFT JOIN amounts ON amounts.node_id = nodes.id
    LEFT JOIN node_conditions
        ON node_conditions.node_id = nodes.id AND node_conditions.type = 'Disconnected'
) ON true
ORDER BY nodes.id, cells.nvlink_group, cells.numa_node, cells.model, cells.memory_mib;

-- name: whole
-- All of a pool for one window, read as `likeliest` reads a part of it. What a host has of each
-- resource, booked or not, tells a host that is too small from one that is taken.
WITH booked AS MATERIALIZED (
    -- Bookings of a device never overlap: of those that meet the window the last to end decides. An
    -- extension is a row of its own behind the one before: the hold ends where it ends.
    SELECT devices.id AS device_id, coalesce(extended.until, last.until) AS until
    FROM nodes
    JOIN devices ON devices.node_id = nodes.id
    CROSS JOIN LATERAL (
        SELECT device_bookings.allocation_id, upper(device_bookings.during) AS until
        FROM device_bookings
        WHERE device_bookings.device_id = devices.id
            AND upper(device_bookings.during) > %(start)s::timestamptz
            AND lower(device_bookings.during) < %(end)s::timestamptz
        ORDER BY upper(device_bookings.during) DESC
        LIMIT 1
    ) AS last
    CROSS JOIN LATERAL (
        SELECT max(upper(device_bookings.during)) AS until
        FROM device_bookings
        WHERE device_bookings.device_id = devices.id
            AND device_bookings.allocation_id = last.allocation_id
            AND upper(device_bookings.during) > last.until
    ) AS extended
    WHERE nodes.pool_id = %(pool_id)s::text
),
worked_on AS MATERIALIZED (
    -- Maintenance that meets the window, by node; of the whole pool under the empty name.
    SELECT
        coalesce(maintenance_windows.node_id, '') AS node_id,
        (extract(epoch FROM max(upper(maintenance_windows.during))) * 1000)::bigint AS until
    FROM maintenance_windows
    WHERE maintenance_windows.pool_id = %(pool_id)s::text
        AND maintenance_windows.cancelled_at IS NULL
        AND upper(maintenance_windows.during) > %(start)s::timestamptz
        AND lower(maintenance_windows.during) < %(end)s::timestamptz
    GROUP BY maintenance_windows.node_id
),
cells AS (
    SELECT
        devices.node_id, devices.bookable_mode, devices.profile, devices.model, devices.memory_mib,
        devices.driver, devices.numa_node, devices.nvlink_group,
        array_agg(devices.id) FILTER (
            WHERE devices.healthy AND NOT devices.quarantined AND booked.until IS NULL
        ) AS free,
        array_agg((extract(epoch FROM booked.until) * 1000)::bigint ORDER BY booked.until) FILTER (
            WHERE devices.healthy AND NOT devices.quarantined AND booked.until IS NOT NULL
        ) AS busy_until,
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
        END) AS free,
        jsonb_object_agg(
            node_resources.resource,
            floor(node_resources.allocatable * node_resources.ratio)::bigint
        ) AS capacity
    FROM nodes
    JOIN node_resources ON node_resources.node_id = nodes.id
    JOIN unnest(%(resources)s::text[], %(amounts)s::bigint[]) AS needs (resource, amount)
        ON needs.resource = node_resources.resource
    WHERE nodes.pool_id = %(pool_id)s::text
    GROUP BY node_resources.node_id
)
SELECT
    true,
    nodes.id, nodes.name, nodes.state, nodes.cordoned, nodes.labels, nodes.system_labels,
    nodes.taints, node_conditions.id IS NULL AS connected,
    greatest(worked_on.until, (SELECT until FROM worked_on WHERE node_id = '')) AS worked_on_until,
    amounts.free, amounts.capacity,
    cells.bookable_mode, cells.profile, cells.model, cells.memory_mib, cells.driver,
    cells.numa_node, cells.nvlink_group, cells.free, cells.busy_until, cells.unhealthy
FROM nodes
LEFT JOIN cells ON cells.node_id = nodes.id
LEFT JOIN amounts ON amounts.node_id = nodes.id
LEFT JOIN worked_on ON worked_on.node_id = nodes.id
LEFT JOIN node_conditions
    ON node_conditions.node_id = nodes.id AND node_conditions.type = 'Disconnected'
WHERE nodes.pool_id = %(pool_id)s::text AND nodes.state <> 'retired'
ORDER BY nodes.id, cells.nvlink_group, cells.numa_node, cells.model, cells.memory_mib;
