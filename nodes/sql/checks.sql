-- name: overlapping_bookings
-- C9, without trusting the constraint. In the order of their starts, a booking that begins before all
-- earlier ones have ended overlaps one of them: one sort, however many bookings a device has.
SELECT
    late.device_id,
    (
        SELECT min(other.allocation_id)
        FROM device_bookings AS other
        WHERE other.device_id = late.device_id AND other.id <> late.id
            AND other.during && late.during
    ),
    late.allocation_id
FROM (
    SELECT
        id, device_id, allocation_id, during,
        max(upper(during)) OVER (
            PARTITION BY device_id ORDER BY lower(during), id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS busy_until
    FROM device_bookings
) AS late
WHERE lower(late.during) < late.busy_until
ORDER BY late.device_id, late.id
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
-- C12, without trusting the function that counts: what is allocated is the peak from now on, the
-- largest running sum of what begins and ends; at one instant ends come first. It may be more while
-- a booking is over that its owner has not ended yet; never less.
WITH steps AS (
    SELECT node_id, resource, greatest(lower(during), compute_now()) AS at, amount AS delta
    FROM resource_bookings
    WHERE upper(during) > compute_now()
    UNION ALL
    SELECT node_id, resource, upper(during), -amount
    FROM resource_bookings
    WHERE upper(during) > compute_now()
),
sums AS (
    SELECT
        node_id, resource,
        sum(delta) OVER (
            PARTITION BY node_id, resource ORDER BY at, delta ROWS UNBOUNDED PRECEDING
        ) AS level
    FROM steps
),
peaks AS (
    SELECT node_id, resource, max(level)::bigint AS peak FROM sums GROUP BY node_id, resource
)
SELECT
    node_resources.node_id, node_resources.resource, allocated, coalesce(peak, 0), ceiling,
    floor(allocatable * ratio)::bigint
FROM node_resources
LEFT JOIN peaks
    ON peaks.node_id = node_resources.node_id AND peaks.resource = node_resources.resource
WHERE allocated < coalesce(peak, 0)
    OR ceiling < allocated
    OR (
        allocated > coalesce(peak, 0)
        AND NOT EXISTS (
            SELECT FROM resource_bookings
            JOIN assignments USING (allocation_id)
            WHERE resource_bookings.node_id = node_resources.node_id
                AND resource_bookings.resource = node_resources.resource
                AND upper(resource_bookings.during) <= compute_now()
        )
    )
ORDER BY node_resources.node_id, node_resources.resource
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
