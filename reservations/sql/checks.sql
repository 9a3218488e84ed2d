-- name: bookings_of_ended_allocations
SELECT DISTINCT device_bookings.allocation_id
FROM device_bookings
JOIN allocations ON allocations.id = device_bookings.allocation_id
WHERE upper(device_bookings.during) > compute_now()
    AND allocations.state IN ('released', 'failed')
ORDER BY device_bookings.allocation_id;

-- name: charges_of_ended_reservations
SELECT DISTINCT quota_charges.owner_key
FROM quota_charges
JOIN reservations ON reservations.id = quota_charges.owner_key
WHERE reservations.state IN ('draft', 'denied', 'released', 'failed', 'cancelled', 'expired')
ORDER BY quota_charges.owner_key;

-- name: overdue_ends
SELECT id
FROM reservations
WHERE state IN ('placed', 'binding', 'active')
    AND ends_at < compute_now() - interval '1 minute'
ORDER BY id;

-- name: allocations_misbooked
-- What an allocation holds is in both tables of bookings, to the millisecond, and nothing else is.
-- An extended one has several bookings of a device, one right behind the other (R33): together they
-- are as long as from the first's start to the last's end.
WITH live AS (
    SELECT
        allocations.id, allocations.device_ids, allocations.resources,
        reservations.starts_at, reservations.ends_at
    FROM allocations
    JOIN reservations ON reservations.id = allocations.reservation_id
    WHERE allocations.state IN ('placed', 'binding', 'bound')
),
each_device AS (
    SELECT
        allocation_id AS id, device_id,
        min(lower(during)) AS first, max(upper(during)) AS last,
        sum(upper(during) - lower(during)) AS length
    FROM device_bookings
    GROUP BY allocation_id, device_id
),
booked_devices AS (
    SELECT
        id, array_agg(device_id ORDER BY device_id) AS device_ids,
        min(first) AS first_start, max(first) AS last_start,
        min(last) AS first_end, max(last) AS last_end,
        bool_and(length = last - first) AS without_gap
    FROM each_device
    GROUP BY id
),
each_resource AS (
    SELECT
        allocation_id AS id, resource, min(amount) AS amount, max(amount) AS amount_max,
        min(lower(during)) AS first, max(upper(during)) AS last,
        sum(upper(during) - lower(during)) AS length
    FROM resource_bookings
    GROUP BY allocation_id, resource
),
booked_resources AS (
    SELECT
        id, jsonb_object_agg(resource, amount) AS resources,
        min(first) AS first_start, max(first) AS last_start,
        min(last) AS first_end, max(last) AS last_end,
        bool_and(length = last - first AND amount = amount_max) AS without_gap
    FROM each_resource
    GROUP BY id
)
SELECT live.id
FROM live
LEFT JOIN booked_devices AS d ON d.id = live.id
LEFT JOIN booked_resources AS r ON r.id = live.id
WHERE
    d.device_ids IS DISTINCT FROM ARRAY(SELECT unnest(live.device_ids) ORDER BY 1)
    OR (d.first_start, d.last_start, d.first_end, d.last_end)
        IS DISTINCT FROM (live.starts_at, live.starts_at, live.ends_at, live.ends_at)
    OR NOT d.without_gap
    OR coalesce(r.resources, '{}') IS DISTINCT FROM live.resources
    OR r.first_start <> live.starts_at OR r.last_start <> live.starts_at
    OR r.first_end <> live.ends_at OR r.last_end <> live.ends_at
    OR NOT r.without_gap
ORDER BY live.id;

-- name: held_in_part
-- Whole or nothing: a reservation that has its devices has them on every node it asked for, and one
-- that has none has no allocation that lives.
SELECT reservations.id
FROM reservations
LEFT JOIN allocations
    ON allocations.reservation_id = reservations.id
    AND allocations.state IN ('placed', 'binding', 'bound')
WHERE reservations.state <> 'draft'
GROUP BY reservations.id
HAVING count(allocations.id) < CASE
        WHEN reservations.state IN ('placed', 'binding', 'active')
        THEN coalesce((reservations.request -> 'gang' ->> 'nodes')::int, 1)
        ELSE 0
    END
    OR (
        count(allocations.id) > 0 AND reservations.state NOT IN ('placed', 'binding', 'active')
    )
ORDER BY reservations.id;

-- name: uncharged
-- Where and to whom it is charged is what the quotas of pools and offers, and policies, count.
SELECT reservations.id
FROM reservations
WHERE reservations.state IN ('pending', 'placed', 'binding', 'active')
    AND NOT EXISTS (
        SELECT FROM quota_charges
        WHERE quota_charges.owner_key = reservations.id
            AND quota_charges.resource = 'gpuMilli'
            AND quota_charges.tenant_id = reservations.tenant_id
            AND quota_charges.pool_id = reservations.pool_id
            AND quota_charges.account_id = reservations.owner_id
    )
ORDER BY reservations.id;

-- name: forgotten
-- Nobody will look at these again before the next resync.
SELECT reservations.id
FROM reservations
WHERE reservations.state IN ('pending', 'placed', 'binding', 'active')
    AND NOT EXISTS (
        SELECT FROM work_queue
        WHERE work_queue.kind = 'reservation' AND work_queue.key = reservations.id
    )
ORDER BY reservations.id;

-- name: forgotten_lines
-- R13: where a pool's placer queues, nobody in the line tries alone.
SELECT pools.id
FROM pools
WHERE pools.placer = 'queued'
    AND EXISTS (
        SELECT FROM reservations
        WHERE reservations.pool_id = pools.id AND reservations.state = 'pending'
    )
    AND NOT EXISTS (
        SELECT FROM work_queue WHERE work_queue.kind = 'pool' AND work_queue.key = pools.id
    )
ORDER BY pools.id;

-- name: ended_and_booked
-- R35: what has ended holds nothing, but what a node has yet to let go of.
SELECT DISTINCT allocations.id
FROM allocations
JOIN reservations ON reservations.id = allocations.reservation_id
JOIN device_bookings ON device_bookings.allocation_id = allocations.id
WHERE reservations.state IN ('released', 'failed', 'cancelled', 'expired', 'denied')
    AND upper(device_bookings.during) > compute_now()
    AND allocations.state <> 'releasing'
ORDER BY allocations.id;

-- name: cut_short_untold
-- R19: only spot ends before its whole duration, and says so by its condition.
SELECT id
FROM reservations
WHERE state IN ('placed', 'binding', 'active')
    AND (
        (ends_at < starts_at + duration_ms * interval '1 millisecond')
            <> (conditions @> '[{"type": "Preempting"}]')
        OR (conditions @> '[{"type": "Preempting"}]' AND NOT spot)
    )
ORDER BY id;
