-- name: nodes
-- Who owns these pools, and how many nodes they have and may place on.
SELECT
    pools.id,
    owners.name,
    count(nodes.id) FILTER (WHERE nodes.state <> 'retired'),
    count(nodes.id) FILTER (WHERE nodes.state = 'ready' AND NOT nodes.cordoned)
FROM pools
JOIN tenants AS owners ON owners.id = pools.tenant_id
LEFT JOIN nodes ON nodes.pool_id = pools.id
WHERE pools.id = ANY(%(pool_ids)s::text[])
GROUP BY pools.id, owners.name
ORDER BY pools.id;

-- name: kinds
-- How many usable devices of each kind, model and MIG profile each pool has.
SELECT nodes.pool_id, devices.kind, devices.model, devices.profile, count(*)
FROM devices
JOIN nodes ON nodes.id = devices.node_id
WHERE
    nodes.pool_id = ANY(%(pool_ids)s::text[])
    AND nodes.state = 'ready'
    AND NOT nodes.cordoned
    AND devices.bookable_mode IS NOT NULL
    AND devices.healthy
    AND NOT devices.quarantined
GROUP BY nodes.pool_id, devices.kind, devices.model, devices.profile
ORDER BY nodes.pool_id, devices.kind, devices.model, devices.profile;

-- name: booked
-- When the usable devices of these pools are taken, one row a device and booking.
SELECT nodes.pool_id, lower(device_bookings.during), upper(device_bookings.during)
FROM device_bookings
JOIN devices ON devices.id = device_bookings.device_id
JOIN nodes ON nodes.id = devices.node_id
WHERE
    nodes.pool_id = ANY(%(pool_ids)s::text[])
    AND nodes.state = 'ready'
    AND NOT nodes.cordoned
    AND devices.bookable_mode IS NOT NULL
    AND devices.healthy
    AND NOT devices.quarantined
    AND device_bookings.during && tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
ORDER BY lower(device_bookings.during), device_bookings.id;

-- name: devices
-- Every bookable device of a pool in the order people count them, usable or not.
SELECT
    devices.id,
    nodes.name,
    CASE WHEN devices.profile = '' THEN devices.model ELSE devices.model || ' ' || devices.profile END
FROM devices
JOIN nodes ON nodes.id = devices.node_id
WHERE
    nodes.pool_id = %(pool_id)s
    AND nodes.state <> 'retired'
    AND devices.bookable_mode IS NOT NULL
ORDER BY nodes.name, nodes.id, devices.index, devices.id;
