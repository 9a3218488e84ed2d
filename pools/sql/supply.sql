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
-- When the usable devices of these pools cannot be had, one row a device and stretch: booked, or
-- worked on, which may lie over what was booked before.
WITH usable AS (
    SELECT nodes.pool_id, nodes.id AS node_id, devices.id AS device_id
    FROM devices
    JOIN nodes ON nodes.id = devices.node_id
    WHERE
        nodes.pool_id = ANY(%(pool_ids)s::text[])
        AND nodes.state = 'ready'
        AND NOT nodes.cordoned
        AND devices.bookable_mode IS NOT NULL
        AND devices.healthy
        AND NOT devices.quarantined
),
taken AS (
    SELECT usable.pool_id, usable.device_id, device_bookings.during
    FROM usable
    JOIN device_bookings ON device_bookings.device_id = usable.device_id
    WHERE device_bookings.during
        && tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
    UNION ALL
    SELECT usable.pool_id, usable.device_id, maintenance_windows.during
    FROM maintenance_windows
    JOIN usable
        ON usable.pool_id = maintenance_windows.pool_id
        AND (maintenance_windows.node_id IS NULL OR maintenance_windows.node_id = usable.node_id)
    WHERE maintenance_windows.cancelled_at IS NULL
        AND upper(maintenance_windows.during) > %(start)s::timestamptz
        AND lower(maintenance_windows.during) < %(end)s::timestamptz
),
stretches AS (
    SELECT pool_id, device_id, unnest(range_agg(during)) AS during
    FROM taken
    GROUP BY pool_id, device_id
)
SELECT pool_id, lower(during), upper(during)
FROM stretches
ORDER BY lower(during), pool_id, device_id;

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
