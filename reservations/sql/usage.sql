-- name: metered
-- Device-time that a tenant's reservations had in each span: what is booked for them, clipped to
-- their window, since a node may keep a device a little longer (R35). A reservation's worth is
-- shared evenly by its devices. Idle is what came before its devices were bound, or all of it where
-- they never were. What has yet to come is not metered.
WITH spans AS (
    SELECT span.begins, least(span.ends, compute_now()) AS ends
    FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS span (begins, ends)
),
had AS (
    SELECT
        id, pool_id, owner_id, gpu_milli, starts_at, ends_at, bound_at
    FROM reservations
    WHERE tenant_id = %(tenant_id)s::text
        AND placed_at IS NOT NULL
        AND starts_at < %(until)s::timestamptz
        AND ends_at > %(since)s::timestamptz
        AND (%(pool_id)s::text IS NULL OR pool_id = %(pool_id)s::text)
),
devices_of AS (
    SELECT
        had.id,
        sum(cardinality(allocations.device_ids)) AS devices
    FROM had
    JOIN allocations ON allocations.reservation_id = had.id AND allocations.state <> 'failed'
    -- Not what it had before its window: a bound part of a gang whose other part failed to bind.
    WHERE EXISTS (
        SELECT FROM device_bookings
        WHERE device_bookings.allocation_id = allocations.id
            AND device_bookings.during && tstzrange(had.starts_at, had.ends_at)
    )
    GROUP BY had.id
),
booked AS (
    SELECT
        had.pool_id, had.owner_id, had.bound_at,
        had.gpu_milli / devices_of.devices::numeric AS milli,
        greatest(lower(device_bookings.during), had.starts_at) AS begins,
        least(upper(device_bookings.during), had.ends_at) AS ends
    FROM had
    JOIN devices_of USING (id)
    JOIN allocations ON allocations.reservation_id = had.id AND allocations.state <> 'failed'
    JOIN device_bookings ON device_bookings.allocation_id = allocations.id
),
metered AS (
    SELECT
        spans.begins AS span, booked.pool_id, booked.owner_id, booked.milli,
        greatest(booked.begins, spans.begins) AS begins,
        least(booked.ends, spans.ends) AS ends,
        booked.bound_at
    FROM booked
    JOIN spans ON booked.begins < spans.ends AND booked.ends > spans.begins
)
SELECT
    CASE WHEN %(by_day)s::boolean THEN span END AS day,
    CASE WHEN %(by_pool)s::boolean THEN pool_id END AS pool,
    CASE WHEN %(by_owner)s::boolean THEN owner_id END AS owner,
    round(sum(milli * extract(epoch FROM ends - begins)) / 3600)::bigint,
    round(
        sum(milli * extract(epoch FROM greatest(
            interval '0', least(ends, coalesce(bound_at, ends)) - begins
        ))) / 3600
    )::bigint
FROM metered
WHERE begins < ends
GROUP BY 1, 2, 3
ORDER BY 1, 2, 3;
