-- name: bookings
-- Bookings of a pool that touch a window, with whose they are. An allocation id that is no
-- allocation's is a command that changes a node.
SELECT
    device_bookings.device_id,
    device_bookings.allocation_id,
    lower(device_bookings.during),
    upper(device_bookings.during),
    reservations.id,
    reservations.tenant_id,
    reservations.owner_id,
    accounts.username,
    cardinality(allocations.device_ids)
FROM device_bookings
JOIN devices ON devices.id = device_bookings.device_id
JOIN nodes ON nodes.id = devices.node_id
LEFT JOIN allocations ON allocations.id = device_bookings.allocation_id
LEFT JOIN reservations ON reservations.id = allocations.reservation_id
LEFT JOIN accounts ON accounts.id = reservations.owner_id
WHERE
    nodes.pool_id = %(pool_id)s
    AND device_bookings.during && tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
ORDER BY lower(device_bookings.during), device_bookings.device_id, device_bookings.id;

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
