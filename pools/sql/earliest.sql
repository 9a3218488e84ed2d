-- When a request could fit (R20). A hint: the planner looks at each instant that this answers.

-- name: candidates
-- A device may be taken at any start whose whole window lies in one of its gaps: from where the gap
-- opens until a window's length before it closes. A sweep over these spans tells at which instants
-- a node has enough such devices at once, and enough nodes do. Bookings that ended are not read.
--
-- With `ends`, only as far as the first so many ends of bookings, of all pools: by the order of their
-- index. A node has more devices free only when a booking on it ends, or maintenance, so of the pool
-- only nodes with such an end are read; for a gang and a spread those with enough free already, too.
-- Each row says (there is at least one) whether that was all there is.
WITH first_ends AS MATERIALIZED (
    SELECT device_id, upper(during) AS at
    FROM device_bookings
    WHERE %(ends)s::int IS NOT NULL
        AND upper(during) > %(after)s::timestamptz
        AND upper(during) <= %(until)s::timestamptz
    ORDER BY upper(during)
    LIMIT %(ends)s::int
),
horizon AS MATERIALIZED (
    SELECT
        CASE WHEN count(*) < %(ends)s::int OR %(ends)s::int IS NULL
            THEN %(until)s::timestamptz ELSE max(at) END AS at,
        count(*) < %(ends)s::int OR %(ends)s::int IS NULL AS is_last
    FROM first_ends
),
free_already AS MATERIALIZED (
    SELECT devices.node_id
    FROM nodes
    JOIN devices ON devices.node_id = nodes.id
    WHERE nodes.pool_id = %(pool_id)s::text
        AND %(ends)s::int IS NOT NULL
        AND (%(spread)s::boolean OR %(places)s::int > 1)
        -- Bookings of a device never overlap: the first to end behind the instant decides.
        AND coalesce((
            SELECT lower(device_bookings.during) > %(after)s::timestamptz
            FROM device_bookings
            WHERE device_bookings.device_id = devices.id
                AND upper(device_bookings.during) > %(after)s::timestamptz
            ORDER BY upper(device_bookings.during)
            LIMIT 1
        ), true)
    GROUP BY devices.node_id
    HAVING count(*) >= CASE WHEN %(spread)s::boolean THEN 1 ELSE %(count)s::int END
),
concerned AS MATERIALIZED (
    SELECT devices.node_id FROM first_ends JOIN devices ON devices.id = first_ends.device_id
    UNION
    SELECT node_id FROM free_already
    UNION
    SELECT nodes.id FROM nodes WHERE nodes.pool_id = %(pool_id)s::text AND %(ends)s::int IS NULL
    UNION
    SELECT nodes.id
    FROM maintenance_windows
    JOIN nodes
        ON nodes.pool_id = maintenance_windows.pool_id
        AND nodes.id = coalesce(maintenance_windows.node_id, nodes.id)
    WHERE maintenance_windows.pool_id = %(pool_id)s::text
        AND maintenance_windows.cancelled_at IS NULL
        AND upper(maintenance_windows.during) > %(after)s::timestamptz
),
atoms AS MATERIALIZED (
    SELECT
        devices.id AS device_id,
        devices.node_id,
        CASE WHEN %(spread)s::boolean THEN '' ELSE devices.node_id END AS place
    FROM concerned
    JOIN nodes ON nodes.id = concerned.node_id
    JOIN devices ON devices.node_id = nodes.id
    WHERE nodes.pool_id = %(pool_id)s::text
        AND nodes.state = 'ready'
        AND NOT nodes.cordoned
        AND (%(tainted)s::boolean OR NOT nodes.taints @? '$[*] ? (!(@.effect == "PreferNoSchedule"))')
        AND devices.bookable_mode = %(mode)s::text
        AND devices.profile = %(profile)s::text
        AND (%(models)s::text[] IS NULL OR lower(devices.model) = ANY(%(models)s::text[]))
        AND devices.healthy
        AND NOT devices.quarantined
),
busy AS (
    SELECT
        atoms.place, atoms.device_id,
        lower(device_bookings.during) AS begins, upper(device_bookings.during) AS ends
    FROM atoms
    JOIN device_bookings USING (device_id)
    WHERE upper(device_bookings.during) > %(after)s::timestamptz
        AND lower(device_bookings.during) <= (SELECT at FROM horizon) + %(length)s::interval
    UNION ALL
    -- Maintenance, which may lie over bookings that were there before it.
    SELECT
        atoms.place, atoms.device_id,
        lower(maintenance_windows.during), upper(maintenance_windows.during)
    FROM maintenance_windows
    JOIN atoms
        ON maintenance_windows.node_id IS NULL OR maintenance_windows.node_id = atoms.node_id
    WHERE maintenance_windows.pool_id = %(pool_id)s::text
        AND maintenance_windows.cancelled_at IS NULL
        AND upper(maintenance_windows.during) > %(after)s::timestamptz
),
gaps AS (
    SELECT
        place,
        coalesce(
            max(ends) OVER (
                PARTITION BY device_id ORDER BY begins, ends
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            %(after)s::timestamptz
        ) AS opens,
        begins AS closes
    FROM busy
    UNION ALL
    SELECT atoms.place, coalesce(max(busy.ends), %(after)s::timestamptz), 'infinity'
    FROM atoms
    LEFT JOIN busy USING (device_id)
    GROUP BY atoms.place, atoms.device_id
),
edges AS (
    SELECT gaps.place, edge.at, sum(edge.change) AS change
    FROM gaps
    CROSS JOIN LATERAL (
        VALUES
            (gaps.opens, 1),
            (gaps.closes - %(length)s::interval + interval '1 millisecond', -1)
    ) AS edge (at, change)
    WHERE gaps.closes - %(length)s::interval >= gaps.opens
    GROUP BY gaps.place, edge.at
),
levels AS (
    SELECT
        place, at, change,
        sum(change) OVER (PARTITION BY place ORDER BY at) AS open
    FROM edges
),
changes AS (
    SELECT
        at,
        (open >= %(count)s::int)::int - (open - change >= %(count)s::int)::int AS able,
        (change > 0 AND open >= %(count)s::int)::int AS grown
    FROM levels
),
pool_levels AS (
    SELECT at, sum(sum(able)) OVER (ORDER BY at) AS able, sum(grown) AS grown
    FROM changes
    GROUP BY at
),
found AS (
    SELECT pool_levels.at
    FROM pool_levels, horizon
    WHERE pool_levels.able >= %(places)s::int
        AND pool_levels.grown > 0
        AND pool_levels.at > %(after)s::timestamptz
        AND pool_levels.at <= horizon.at
    ORDER BY pool_levels.at
    LIMIT %(limit)s::int
)
SELECT horizon.is_last, found.at
FROM horizon
LEFT JOIN found ON true
ORDER BY found.at;
