-- name: in_spans
-- R39: what the tenant has reserved in each of these spans of a budget, in thousandths of a GPU times
-- seconds, up to now and from now on. What has passed counts as it is metered; what is to come as it
-- is charged: a range of devices at its most as long as it may still be placed again. What waits is
-- planned from its start or from now. What failed, and what was withdrawn, has cost nothing.
WITH present AS MATERIALIZED (
    SELECT compute_now() AS instant  -- once, not for each reservation
),
spans AS (
    SELECT place, pool_id, begins, ends
    FROM unnest(
        %(places)s::int[], %(pool_ids)s::text[], %(starts)s::timestamptz[], %(ends)s::timestamptz[]
    ) AS span (place, pool_id, begins, ends)
),
reserved AS (
    SELECT
        pool_id, gpu_milli, gpu_milli AS planned_milli,
        starts_at AS begins, least(ends_at, coalesce(ended_at, ends_at)) AS ends
    FROM reservations
    WHERE tenant_id = %(tenant_id)s::text
        AND placed_at IS NOT NULL
        AND ends_at > %(since)s::timestamptz
        AND state = 'released'
    UNION ALL
    SELECT
        reservations.pool_id, gpu_milli, greatest(gpu_milli, quota_charges.amount),
        starts_at, ends_at
    FROM reservations
    JOIN quota_charges
        ON quota_charges.owner_key = reservations.id AND quota_charges.resource = 'gpuMilli'
    WHERE reservations.tenant_id = %(tenant_id)s::text
        AND placed_at IS NOT NULL
        AND ends_at > %(since)s::timestamptz
        AND state IN ('placed', 'binding', 'active')
    UNION ALL
    SELECT
        reservations.pool_id, 0, quota_charges.amount,
        greatest(requested_start, present.instant),
        greatest(requested_start, present.instant) + duration_ms * interval '1 millisecond'
    FROM reservations
    CROSS JOIN present
    JOIN quota_charges
        ON quota_charges.owner_key = reservations.id AND quota_charges.resource = 'gpuMilli'
    WHERE reservations.tenant_id = %(tenant_id)s::text
        AND state = 'pending'
)
SELECT
    spans.place,
    coalesce(sum(gpu_milli * extract(epoch FROM greatest(
        interval '0',
        least(reserved.ends, spans.ends, present.instant) - greatest(reserved.begins, spans.begins)
    ))), 0),
    coalesce(sum(planned_milli * extract(epoch FROM greatest(
        interval '0',
        least(reserved.ends, spans.ends)
            - greatest(reserved.begins, spans.begins, present.instant)
    ))), 0)
FROM spans
CROSS JOIN present
LEFT JOIN reserved
    ON reserved.begins < spans.ends
    AND reserved.ends > spans.begins
    AND (spans.pool_id IS NULL OR spans.pool_id = reserved.pool_id)
GROUP BY spans.place
ORDER BY spans.place;
