-- name: series_forgotten
-- Nobody will look at these again before the next resync.
SELECT id
FROM reservation_series
WHERE state = 'active'
    AND NOT EXISTS (
        SELECT FROM work_queue
        WHERE work_queue.kind = 'series' AND work_queue.key = reservation_series.id
    )
ORDER BY id;

-- name: occurrences_untried
-- An occurrence that has a row, is due to be tried, and is not.
SELECT DISTINCT reservation_series.id
FROM reservation_series
JOIN reservations ON reservations.series_id = reservation_series.id
WHERE reservation_series.state = 'active'
    AND NOT reservation_series.conditions @> '[{"type": "OwnerUnresolved"}]'
    AND reservations.state = 'draft'
    AND coalesce(reservations.retry_at, reservations.created_at)
        < compute_now() - interval '1 hour'
ORDER BY reservation_series.id;

-- name: series_by_horizon
-- Up to where the occurrences of each series have rows, and how far they should, by its pool.
SELECT
    reservation_series.id,
    reservation_series.created_at,
    reservation_series.next_at,
    pools.policy::text,
    count(reservations.id) AS ahead
FROM reservation_series
JOIN pools ON pools.id = reservation_series.pool_id
LEFT JOIN reservations
    ON reservations.series_id = reservation_series.id
    AND reservations.occurrence_at > compute_now()
WHERE reservation_series.state = 'active' AND reservation_series.next_at IS NOT NULL
GROUP BY reservation_series.id, pools.policy
ORDER BY reservation_series.id;

-- name: series_unresolved
SELECT id
FROM reservation_series
WHERE state = 'active' AND conditions @> '[{"type": "OwnerUnresolved"}]'
ORDER BY id;
