-- name: book
-- C9: the exclusion constraint decides. DO NOTHING waits for a rival's transaction and then yields,
-- where a plain INSERT would raise; sorted, since two gangs that meet in opposite order deadlock.
INSERT INTO device_bookings (device_id, allocation_id, during)
SELECT
    claims.device_id,
    claims.allocation_id,
    tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
FROM unnest(%(device_ids)s::text[], %(allocation_ids)s::text[])
    AS claims (device_id, allocation_id)
ORDER BY claims.device_id
ON CONFLICT DO NOTHING;

-- name: book_each
-- The same for claims that have a window each. Two of them may name one device for windows that do
-- not meet; of two that meet, the first here is booked. Answers what was.
INSERT INTO device_bookings (device_id, allocation_id, during)
SELECT claims.device_id, claims.allocation_id, tstzrange(claims.starts, claims.ends, '[)')
FROM unnest(
    %(device_ids)s::text[],
    %(allocation_ids)s::text[],
    %(starts)s::timestamptz[],
    %(ends)s::timestamptz[]
) AS claims (device_id, allocation_id, starts, ends)
ORDER BY claims.device_id, claims.starts
ON CONFLICT DO NOTHING
RETURNING allocation_id;

-- name: unbook
DELETE FROM device_bookings
WHERE allocation_id = ANY(%(allocation_ids)s::text[]);

-- name: remove_later
-- Bookings that would be empty once they end at the instant, or have not begun by then.
DELETE FROM device_bookings
WHERE allocation_id = ANY(%(allocation_ids)s::text[])
    AND lower(during) >= date_trunc('milliseconds', coalesce(%(at)s::timestamptz, compute_now()));

-- name: shorten
-- Bookings in progress end at the instant. A shorter range cannot meet a booking it did not meet.
UPDATE device_bookings
SET during = tstzrange(lower(during), instant.at, '[)')
FROM (
    SELECT date_trunc('milliseconds', coalesce(%(at)s::timestamptz, compute_now())) AS at
) AS instant
WHERE allocation_id = ANY(%(allocation_ids)s::text[])
    AND lower(during) < instant.at
    AND upper(during) > instant.at;

-- name: blocking
-- Every booking of these devices that overlaps the window; an end of NULL means for ever.
SELECT device_id, allocation_id, lower(during), upper(during)
FROM device_bookings
WHERE device_id = ANY(%(device_ids)s::text[])
    AND during && tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
ORDER BY lower(during), device_id, id;

-- name: free_between
-- Those of these devices that nothing has booked at any instant of the window.
SELECT wanted.device_id
FROM unnest(%(device_ids)s::text[]) AS wanted (device_id)
WHERE NOT EXISTS (
    SELECT FROM device_bookings
    WHERE device_bookings.device_id = wanted.device_id
        AND during && tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)')
)
ORDER BY wanted.device_id;

-- name: free_until
SELECT min(lower(during))
FROM device_bookings
WHERE device_id = ANY(%(device_ids)s::text[])
    AND during && tstzrange(%(after)s::timestamptz, NULL, '[)');
