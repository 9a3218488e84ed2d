-- Who may have to give way (R19). What is read here is a look; the locked rows are judged again.

-- name: any_spot
-- Whether a pool has any at all: by reservation_spot, so a pool without spot pays one probe.
SELECT id
FROM reservations
WHERE pool_id = %(pool_id)s
    AND spot
    AND state IN ('placed', 'binding', 'active')
LIMIT 1;

-- name: candidates
-- The cheapest first: low priority, then little work that may have to be done again, then the
-- newest. What has begun runs its guaranteed time, and gives way by `start` or not at all. One that
-- gives way already does not do so twice.
SELECT id, version
FROM reservations
WHERE pool_id = %(pool_id)s
    AND spot
    AND state IN ('placed', 'binding', 'active')
    AND starts_at < %(end)s::timestamptz
    AND ends_at > %(start)s::timestamptz
    AND ends_at = starts_at + duration_ms * interval '1 millisecond'
    AND (
        starts_at > %(now)s::timestamptz
        OR (
            %(with_notice)s::boolean
            AND starts_at + make_interval(secs => %(min_run_seconds)s::int)
                <= %(start)s::timestamptz
        )
    )
ORDER BY
    priority,
    gpu_milli * extract(epoch FROM greatest(%(now)s::timestamptz - starts_at, interval '0')),
    created_at DESC,
    id
LIMIT %(limit)s::int;

-- name: places
-- On which nodes each of them has anything.
SELECT DISTINCT reservation_id, node_id
FROM allocations
WHERE reservation_id = ANY(%(candidates)s::text[])
    AND state IN ('placed', 'binding', 'bound')
ORDER BY reservation_id, node_id;

-- name: atoms
-- Healthy devices that nobody but them has booked within the window, and which of them have.
WITH theirs AS (
    SELECT id, reservation_id
    FROM allocations
    WHERE reservation_id = ANY(%(candidates)s::text[])
        AND state IN ('placed', 'binding', 'bound')
),
touched AS (
    SELECT DISTINCT device_bookings.device_id
    FROM device_bookings
    JOIN theirs ON theirs.id = device_bookings.allocation_id
)
SELECT
    devices.id, devices.node_id,
    devices.bookable_mode, devices.profile, devices.model, devices.memory_mib, devices.driver,
    devices.numa_node, devices.nvlink_group,
    array_agg(DISTINCT theirs.reservation_id)
FROM touched
JOIN devices ON devices.id = touched.device_id
JOIN device_bookings
    ON device_bookings.device_id = touched.device_id
    AND device_bookings.during && tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
LEFT JOIN theirs ON theirs.id = device_bookings.allocation_id
WHERE devices.bookable_mode IS NOT NULL
    AND devices.healthy
    AND NOT devices.quarantined
GROUP BY devices.id
HAVING bool_and(theirs.id IS NOT NULL)
ORDER BY devices.id;

-- name: amounts
-- What their hosts have of these resources, and each booking of it within the window.
WITH theirs AS (
    SELECT id, reservation_id, node_id
    FROM allocations
    WHERE reservation_id = ANY(%(candidates)s::text[])
        AND state IN ('placed', 'binding', 'bound')
)
SELECT
    node_resources.node_id, node_resources.resource,
    floor(node_resources.allocatable * node_resources.ratio)::bigint,
    resource_bookings.amount,
    (extract(epoch FROM lower(resource_bookings.during)) * 1000)::bigint,
    (extract(epoch FROM upper(resource_bookings.during)) * 1000)::bigint,
    theirs.reservation_id
FROM node_resources
LEFT JOIN resource_bookings
    ON resource_bookings.node_id = node_resources.node_id
    AND resource_bookings.resource = node_resources.resource
    AND resource_bookings.during && tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
LEFT JOIN theirs ON theirs.id = resource_bookings.allocation_id
WHERE node_resources.node_id IN (SELECT node_id FROM theirs)
    AND node_resources.resource = ANY(%(resources)s::text[])
ORDER BY node_resources.node_id, node_resources.resource, resource_bookings.id;

-- name: giving_way
-- Spot of a pool whose end was moved forward and has yet to come.
SELECT id
FROM reservations
WHERE pool_id = %(pool_id)s
    AND spot
    AND state IN ('placed', 'binding', 'active')
    AND ends_at < starts_at + duration_ms * interval '1 millisecond'
    AND ends_at > compute_now()
ORDER BY id
LIMIT %(limit)s::int;

-- name: awaiting
-- Placed behind a notice that has yet to pass: by reservation_behind_a_notice.
SELECT id
FROM reservations
WHERE pool_id = %(pool_id)s
    AND state = 'placed'
    AND conditions @> '[{"type": "AwaitingPreemption"}]'
    AND starts_at > compute_now()
ORDER BY starts_at, id
LIMIT %(limit)s::int;
