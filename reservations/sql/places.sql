-- name: of
-- Where some reservations stand in their pools' lines: as pending_in_pool takes them.
SELECT id, position, length, milli_ahead
FROM (
    SELECT
        id,
        row_number() OVER line AS position,
        count(*) OVER (PARTITION BY pool_id) AS length,
        (sum(gpu_milli) OVER line - gpu_milli)::bigint AS milli_ahead
    FROM reservations
    WHERE state = 'pending' AND pool_id = ANY(%(pool_ids)s::text[])
    WINDOW line AS (
        PARTITION BY pool_id
        ORDER BY priority DESC, created_at, id
        ROWS UNBOUNDED PRECEDING
    )
) AS standing
WHERE id = ANY(%(ids)s::text[])
ORDER BY id;
