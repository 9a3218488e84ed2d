-- name: bookings
-- Bookings of a pool that touch a window, with whose they are. An allocation id that is no
-- allocation's is a command that changes a node. What an allocation has of a device is one booking,
-- however often it was extended, and ends where the last of it does, also behind the window.
WITH touching AS (
    SELECT DISTINCT device_bookings.device_id, device_bookings.allocation_id
    FROM device_bookings
    JOIN devices ON devices.id = device_bookings.device_id
    JOIN nodes ON nodes.id = devices.node_id
    WHERE
        nodes.pool_id = %(pool_id)s
        AND device_bookings.during && tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
),
whole AS (
    SELECT
        device_bookings.device_id,
        device_bookings.allocation_id,
        min(lower(device_bookings.during)) AS starts_at,
        max(upper(device_bookings.during)) AS ends_at
    FROM touching
    JOIN device_bookings USING (device_id, allocation_id)
    GROUP BY device_bookings.device_id, device_bookings.allocation_id
)
SELECT
    whole.device_id,
    whole.allocation_id,
    whole.starts_at,
    whole.ends_at,
    reservations.id,
    reservations.tenant_id,
    reservations.owner_id,
    accounts.username,
    cardinality(allocations.device_ids)
FROM whole
LEFT JOIN allocations ON allocations.id = whole.allocation_id
LEFT JOIN reservations ON reservations.id = allocations.reservation_id
LEFT JOIN accounts ON accounts.id = reservations.owner_id
ORDER BY whole.starts_at, whole.device_id, whole.allocation_id;

-- name: names
-- What the ids that a page shows are called, as (kind, id, name).
SELECT 'pool', id, name FROM pools WHERE id = ANY(%(pool_ids)s::text[])
UNION ALL
SELECT 'node', id, name FROM nodes WHERE id = ANY(%(node_ids)s::text[])
UNION ALL
SELECT 'owner', id, username FROM accounts WHERE id = ANY(%(owner_ids)s::text[])
UNION ALL
SELECT 'model', id, CASE WHEN profile = '' THEN model ELSE model || ' ' || profile END
FROM devices
WHERE id = ANY(%(device_ids)s::text[]);
