-- name: summary
-- Usable devices of these pools by kind: how many, how many free now, and when the next of those
-- that are taken now becomes free (its current booking's end, or that of its maintenance).
SELECT
    nodes.pool_id, devices.bookable_mode, devices.model, devices.profile,
    max(devices.memory_mib), count(*),
    count(*) FILTER (WHERE current_booking.until IS NULL),
    (extract(epoch FROM min(current_booking.until)) * 1000)::bigint
FROM nodes
JOIN devices ON devices.node_id = nodes.id
LEFT JOIN LATERAL (
    SELECT max(upper(busy.during)) AS until
    FROM (
        SELECT device_bookings.during
        FROM device_bookings
        WHERE device_bookings.device_id = devices.id
        UNION ALL
        SELECT maintenance_windows.during
        FROM maintenance_windows
        WHERE maintenance_windows.pool_id = nodes.pool_id
            AND (maintenance_windows.node_id IS NULL OR maintenance_windows.node_id = nodes.id)
            AND maintenance_windows.cancelled_at IS NULL
            AND upper(maintenance_windows.during) > compute_now()
    ) AS busy
    WHERE busy.during @> compute_now()
) AS current_booking ON true
WHERE nodes.pool_id = ANY(%(pool_ids)s::text[])
    AND nodes.state = 'ready'
    AND NOT nodes.cordoned
    AND devices.bookable_mode IS NOT NULL
    AND devices.healthy
    AND NOT devices.quarantined
GROUP BY nodes.pool_id, devices.bookable_mode, devices.model, devices.profile
ORDER BY nodes.pool_id, devices.bookable_mode, devices.model, devices.profile;

-- name: node_counts
-- Nodes of these pools, whatever their state, without those retired.
SELECT nodes.pool_id, count(*)
FROM nodes
WHERE nodes.pool_id = ANY(%(pool_ids)s::text[]) AND nodes.state <> 'retired'
GROUP BY nodes.pool_id
ORDER BY nodes.pool_id;

-- name: timeline
-- Every bookable device of a pool with its bookings in the window, one row a booking (or one
-- without). Whose it is, is known from the authorization projection of the booking's owner.
SELECT
    devices.id, nodes.id, nodes.name, devices.bookable_mode, devices.model, devices.profile,
    nodes.state = 'ready' AND NOT nodes.cordoned AND devices.healthy AND NOT devices.quarantined,
    (extract(epoch FROM lower(device_bookings.during)) * 1000)::bigint,
    (extract(epoch FROM upper(device_bookings.during)) * 1000)::bigint,
    authz_resources.id
FROM nodes
JOIN devices ON devices.node_id = nodes.id
LEFT JOIN device_bookings
    ON device_bookings.device_id = devices.id
    AND device_bookings.during && tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
LEFT JOIN assignments ON assignments.allocation_id = device_bookings.allocation_id
LEFT JOIN authz_resources
    ON authz_resources.id = assignments.owner_key
    AND authz_resources.tenant_id = %(tenant_id)s::text
WHERE nodes.pool_id = %(pool_id)s::text
    AND nodes.state <> 'retired'
    AND devices.bookable_mode IS NOT NULL
ORDER BY nodes.name, nodes.id, devices.index, devices.id, lower(device_bookings.during);
