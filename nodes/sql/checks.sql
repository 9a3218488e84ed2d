-- name: overlapping_bookings
-- C9, without trusting the constraint.
SELECT earlier.device_id, earlier.allocation_id, later.allocation_id
FROM device_bookings AS earlier
JOIN device_bookings AS later
    ON later.device_id = earlier.device_id
    AND later.id > earlier.id
    AND later.during && earlier.during
ORDER BY earlier.device_id, earlier.id, later.id
LIMIT 100;

-- name: atoms_bookable_beside_their_gpu
-- C10, without trusting the key.
SELECT atoms.id, atoms.bookable_mode, coalesce(gpus.mode, 'none')
FROM devices AS atoms
JOIN devices AS gpus ON gpus.id = atoms.gpu_id
WHERE atoms.bookable_mode IS NOT NULL AND atoms.bookable_mode IS DISTINCT FROM gpus.mode
ORDER BY atoms.id
LIMIT 100;

-- name: gpus_booked_whole_and_in_parts
-- C10 over time: a GPU and a part of it are never booked for the same instant.
SELECT wholes.device_id, wholes.allocation_id, parts.device_id, parts.allocation_id
FROM device_bookings AS wholes
JOIN devices ON devices.gpu_id = wholes.device_id AND devices.id <> wholes.device_id
JOIN device_bookings AS parts
    ON parts.device_id = devices.id
    AND parts.during && wholes.during
    AND parts.allocation_id <> wholes.allocation_id
ORDER BY wholes.id, parts.id
LIMIT 100;

-- name: resources_miscounted
-- C12: what is allocated is the peak from now on. It may be more while a booking is over that its
-- owner has not ended yet; never less.
SELECT node_id, resource, allocated, peak, ceiling, floor(allocatable * ratio)::bigint
FROM (
    SELECT
        node_resources.*,
        resource_peak(node_id, resource, tstzrange(compute_now(), NULL)) AS peak
    FROM node_resources
) AS counted
WHERE allocated < peak
    OR ceiling < allocated
    OR (
        allocated > peak
        AND NOT EXISTS (
            SELECT FROM resource_bookings
            JOIN assignments USING (allocation_id)
            WHERE resource_bookings.node_id = counted.node_id
                AND resource_bookings.resource = counted.resource
                AND upper(resource_bookings.during) <= compute_now()
        )
    )
ORDER BY node_id, resource
LIMIT 100;

-- name: bookings_of_nobody
-- A booking that is not over belongs to an assignment, or to a command that changes a mode.
SELECT DISTINCT claims.allocation_id
FROM (
    SELECT allocation_id, during FROM device_bookings
    UNION ALL
    SELECT allocation_id, during FROM resource_bookings
) AS claims
WHERE upper(claims.during) > compute_now()
    AND NOT starts_with(claims.allocation_id, 'cmd_')
    AND NOT EXISTS (
        SELECT FROM assignments WHERE assignments.allocation_id = claims.allocation_id
    )
ORDER BY claims.allocation_id
LIMIT 100;

-- name: devices_wanted_twice
-- R35: no device is in the desired state of a node for two allocations.
SELECT earlier.node_id, earlier.allocation_id, later.allocation_id
FROM assignments AS earlier
JOIN assignments AS later
    ON later.node_id = earlier.node_id
    AND later.allocation_id > earlier.allocation_id
    AND later.device_ids && earlier.device_ids
WHERE earlier.wanted AND earlier.entered_at IS NOT NULL
    AND later.wanted AND later.entered_at IS NOT NULL
ORDER BY earlier.allocation_id, later.allocation_id
LIMIT 100;

-- name: booked_though_not_bookable
-- C10, C11: what is booked is an atom of its GPU's present mode. A command books all of a GPU.
SELECT device_bookings.device_id, min(device_bookings.allocation_id)
FROM device_bookings
JOIN devices ON devices.id = device_bookings.device_id
WHERE upper(device_bookings.during) > compute_now()
    AND devices.bookable_mode IS NULL
    AND NOT starts_with(device_bookings.allocation_id, 'cmd_')
GROUP BY device_bookings.device_id
ORDER BY device_bookings.device_id
LIMIT 100;
