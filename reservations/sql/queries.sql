-- name: live_keys
-- Everything that is on its way somewhere: what a resync looks at again (C27).
SELECT id
FROM reservations
WHERE state IN ('draft', 'awaiting-confirmation', 'pending', 'placed', 'binding', 'active')
    AND NOT (state = 'draft' AND series_id IS NOT NULL)
UNION
SELECT owner_key
FROM assignments
WHERE NOT wanted AND entered_at IS NOT NULL
ORDER BY id;

-- name: pending_in_pool
-- The line of a pool: priority, then age (R13).
SELECT id
FROM reservations
WHERE pool_id = %(pool_id)s AND state = 'pending'
ORDER BY priority DESC, created_at, id
LIMIT %(limit)s::int;

-- name: pending_behind
-- The line of a pool behind its first ones.
SELECT id
FROM reservations
WHERE pool_id = %(pool_id)s AND state = 'pending'
ORDER BY priority DESC, created_at, id
OFFSET %(skip)s::int;

-- name: pending_pools
-- Somebody waits there, or gives way and may be spared.
SELECT pool_id
FROM reservations
WHERE state = 'pending'
UNION
SELECT pool_id
FROM reservations
WHERE spot
    AND state IN ('placed', 'binding', 'active')
    AND ends_at < starts_at + duration_ms * interval '1 millisecond'
ORDER BY pool_id;
