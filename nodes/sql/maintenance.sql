-- Planned maintenance of a node, or of a whole pool (node_id NULL): new bookings keep clear of it.

-- name: place
-- Whose pool it is; a node may be named too, and then must be one of it.
SELECT pools.id, pools.name, pools.tenant_id, nodes.id, nodes.name
FROM pools
LEFT JOIN nodes ON nodes.pool_id = pools.id AND nodes.id = %(node_id)s::text
WHERE pools.id = coalesce(
    %(pool_id)s::text, (SELECT named.pool_id FROM nodes AS named WHERE named.id = %(node_id)s::text)
);

-- name: lock_pool
-- Extensions take the same lock, and new nodes share it, so whoever comes second sees the first. Not
-- FOR UPDATE: whoever merely refers to the pool would wait for that, at its COMMIT, behind the nodes
-- that it shares.
SELECT id FROM pools WHERE id = %(pool_id)s FOR NO KEY UPDATE;

-- name: lock_nodes
-- C13: placers hold these rows FOR SHARE while they book, so whoever comes second sees the first.
SELECT id
FROM nodes
WHERE pool_id = %(pool_id)s
    AND (%(node_id)s::text IS NULL OR id = %(node_id)s::text)
    AND state <> 'retired'
ORDER BY id
FOR NO KEY UPDATE;

-- name: same
-- The one that stands for this already: announcing it once more changes nothing.
SELECT id
FROM maintenance_windows
WHERE pool_id = %(pool_id)s
    AND node_id IS NOT DISTINCT FROM %(node_id)s::text
    AND during = tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
    AND reason = %(reason)s
    AND cancelled_at IS NULL
ORDER BY id
LIMIT 1;

-- name: count_standing
SELECT count(*)
FROM maintenance_windows
WHERE pool_id = %(pool_id)s AND cancelled_at IS NULL AND upper(during) > compute_now();

-- name: announce
-- Run under the locks above, so the newest booking is the last one that could not know of it.
INSERT INTO maintenance_windows (
    id, pool_id, node_id, during, reason, announced_by_id, announced_at, last_booking_id, version
)
SELECT
    %(id)s, %(pool_id)s, %(node_id)s::text,
    tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)'),
    %(reason)s, %(announced_by)s, compute_now(), coalesce(max(device_bookings.id), 0), 1
FROM device_bookings;

-- name: lock
SELECT version, cancelled_at IS NOT NULL, upper(during) <= compute_now()
FROM maintenance_windows
WHERE id = %(id)s
FOR NO KEY UPDATE;

-- name: cancel
UPDATE maintenance_windows
SET cancelled_at = compute_now(), cancelled_by_id = %(cancelled_by)s, version = version + 1
WHERE id = %(id)s AND version = %(version)s AND cancelled_at IS NULL
RETURNING version;

-- name: read
-- One by its id, or those of a pool that are not over and meet a window, by start. Of a node: its
-- own and its pool's.
SELECT
    windows.id, windows.pool_id, pools.name, pools.tenant_id, windows.node_id, nodes.name,
    lower(windows.during), upper(windows.during), windows.reason, announcers.username,
    windows.announced_at, windows.cancelled_at, windows.version
FROM maintenance_windows AS windows
JOIN pools ON pools.id = windows.pool_id
JOIN accounts AS announcers ON announcers.id = windows.announced_by_id
LEFT JOIN nodes ON nodes.id = windows.node_id
WHERE CASE
    WHEN %(id)s::text IS NOT NULL THEN windows.id = %(id)s::text
    ELSE windows.pool_id = %(pool_id)s::text
        AND windows.cancelled_at IS NULL
        AND upper(windows.during) > coalesce(%(start)s::timestamptz, compute_now())
        AND lower(windows.during) < coalesce(%(end)s::timestamptz, 'infinity')
        AND (%(node_id)s::text IS NULL OR coalesce(windows.node_id, %(node_id)s::text) = %(node_id)s::text)
END
ORDER BY lower(windows.during), windows.id;

-- name: meeting
-- Who holds something of these nodes in that time, and has not ended: one row an allocation.
SELECT
    assignments.owner_key, assignments.allocation_id, assignments.node_id, nodes.name,
    cardinality(assignments.device_ids),
    min(lower(device_bookings.during)), max(upper(device_bookings.during))
FROM nodes
JOIN assignments ON assignments.node_id = nodes.id
JOIN device_bookings ON device_bookings.allocation_id = assignments.allocation_id
WHERE nodes.pool_id = %(pool_id)s
    AND (%(node_id)s::text IS NULL OR nodes.id = %(node_id)s::text)
GROUP BY assignments.allocation_id, nodes.name
HAVING max(upper(device_bookings.during)) > compute_now()
    AND bool_or(
        device_bookings.during && tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
    )
ORDER BY min(lower(device_bookings.during)), assignments.allocation_id;

-- name: first_on
-- The first window, at or after an instant, of any of these nodes (an end of NULL: for ever): for
-- whoever holds them up to then, and for a holder whose time it meets.
SELECT
    nodes.name, windows.reason,
    greatest(lower(windows.during), %(start)s::timestamptz), upper(windows.during)
FROM nodes
JOIN maintenance_windows AS windows
    ON windows.pool_id = nodes.pool_id
    AND (windows.node_id IS NULL OR windows.node_id = nodes.id)
WHERE nodes.id = ANY(%(node_ids)s::text[])
    AND windows.cancelled_at IS NULL
    AND upper(windows.during) > %(start)s::timestamptz
    AND lower(windows.during) < coalesce(%(end)s::timestamptz, 'infinity')
ORDER BY lower(windows.during), windows.id, nodes.name
LIMIT 1;

-- name: booked_over
-- What was booked after maintenance was announced, and meets it: by the order of bookings, not by
-- the clock, since two transactions may begin in another order than they lock.
SELECT windows.id, device_bookings.device_id, device_bookings.allocation_id
FROM maintenance_windows AS windows
JOIN nodes
    ON nodes.pool_id = windows.pool_id
    AND (windows.node_id IS NULL OR windows.node_id = nodes.id)
JOIN devices ON devices.node_id = nodes.id
JOIN device_bookings
    ON device_bookings.device_id = devices.id
    AND device_bookings.during && windows.during
    AND device_bookings.id > windows.last_booking_id
WHERE windows.cancelled_at IS NULL
    AND upper(windows.during) > compute_now()
    AND NOT starts_with(device_bookings.allocation_id, 'cmd_')
ORDER BY windows.id, device_bookings.device_id, device_bookings.id
LIMIT 100;
