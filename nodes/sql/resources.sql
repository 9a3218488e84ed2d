-- name: lock
-- C12, statement 1: nothing else. Whoever waits here reads what the winner booked in the next
-- statement, whose snapshot is younger; a peak computed in this statement would be stale.
SELECT node_resources.node_id, node_resources.resource
FROM node_resources
JOIN (
    SELECT DISTINCT node_id, resource
    FROM unnest(%(node_ids)s::text[], %(resources)s::text[]) AS claims (node_id, resource)
) AS wanted USING (node_id, resource)
ORDER BY node_resources.node_id, node_resources.resource
FOR NO KEY UPDATE OF node_resources;

-- name: book
-- C12, statement 2, under the locks of the first: all claims or none. A row that does not exist
-- grants nothing.
WITH claims AS (
    SELECT node_id, resource, amount, allocation_id
    FROM unnest(
        %(node_ids)s::text[],
        %(resources)s::text[],
        %(amounts)s::bigint[],
        %(allocation_ids)s::text[]
    ) AS claims (node_id, resource, amount, allocation_id)
),
booking_window AS (
    SELECT tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)') AS during
),
sums AS (
    SELECT node_id, resource, sum(amount) AS amount
    FROM claims
    GROUP BY node_id, resource
),
sums_that_fit AS (
    SELECT sums.node_id
    FROM sums
    JOIN node_resources USING (node_id, resource)
    CROSS JOIN booking_window
    WHERE resource_peak(sums.node_id, sums.resource, booking_window.during) + sums.amount
        <= floor(node_resources.allocatable * node_resources.ratio)
)
INSERT INTO resource_bookings (node_id, resource, amount, during, allocation_id)
SELECT claims.node_id, claims.resource, claims.amount, booking_window.during, claims.allocation_id
FROM claims
CROSS JOIN booking_window
WHERE (SELECT count(*) FROM sums_that_fit) = (SELECT count(*) FROM sums)
ORDER BY claims.node_id, claims.resource, claims.allocation_id;

-- name: recount_after_booking
-- C12, statement 3. Only `allocated`: the ceiling stays, so the CHECK refuses what statement 2
-- should have. From this instant on, not from this transaction's: whoever held the lock before may
-- have ended a booking since then, and what is over would be counted until the next count.
UPDATE node_resources
SET allocated = resource_peak(
    node_resources.node_id, node_resources.resource, tstzrange(compute_instant(), NULL)
)
FROM (
    SELECT DISTINCT node_id, resource
    FROM unnest(%(node_ids)s::text[], %(resources)s::text[]) AS claims (node_id, resource)
) AS changed
WHERE node_resources.node_id = changed.node_id
    AND node_resources.resource = changed.resource;

-- name: lock_of_allocations
-- The rows that these allocations have bookings of, in the one order.
SELECT node_resources.node_id, node_resources.resource
FROM node_resources
WHERE EXISTS (
    SELECT FROM resource_bookings
    WHERE resource_bookings.node_id = node_resources.node_id
        AND resource_bookings.resource = node_resources.resource
        AND resource_bookings.allocation_id = ANY(%(allocation_ids)s::text[])
)
ORDER BY node_resources.node_id, node_resources.resource
FOR NO KEY UPDATE OF node_resources;

-- name: remove_later
-- Bookings that would be empty once they end at the instant, or have not begun by then.
DELETE FROM resource_bookings
WHERE allocation_id = ANY(%(allocation_ids)s::text[])
    AND lower(during) >= date_trunc('milliseconds', coalesce(%(at)s::timestamptz, compute_now()));

-- name: shorten
-- Bookings in progress end at the instant.
UPDATE resource_bookings
SET during = tstzrange(lower(during), instant.at, '[)')
FROM (
    SELECT date_trunc('milliseconds', coalesce(%(at)s::timestamptz, compute_now())) AS at
) AS instant
WHERE allocation_id = ANY(%(allocation_ids)s::text[])
    AND lower(during) < instant.at
    AND upper(during) > instant.at;

-- name: recount_and_reset
-- After a release or a change of allocatable: the new peak, and the ceiling it may not pass. Where
-- a host shrank under what is booked the ceiling is that peak, so only a worse one is refused.
-- Answers which rows had more booked than there was.
UPDATE node_resources
SET allocated = counted.peak,
    ceiling = greatest(floor(node_resources.allocatable * node_resources.ratio), counted.peak)
FROM (
    SELECT
        changed.node_id,
        changed.resource,
        resource_peak(
            changed.node_id, changed.resource, tstzrange(compute_instant(), NULL)
        ) AS peak
    FROM unnest(%(node_ids)s::text[], %(resources)s::text[]) AS changed (node_id, resource)
) AS counted
WHERE node_resources.node_id = counted.node_id
    AND node_resources.resource = counted.resource
RETURNING
    node_resources.node_id,
    old.allocated > floor(old.allocatable * old.ratio);

-- name: set_allocatable
-- Creates or changes rows, and so locks them, in the one order. The ceiling keeps what is booked.
INSERT INTO node_resources (node_id, resource, allocatable, ratio, allocated, ceiling)
SELECT amounts.node_id, amounts.resource, amounts.amount, 1, 0, amounts.amount
FROM unnest(%(node_ids)s::text[], %(resources)s::text[], %(amounts)s::bigint[])
    AS amounts (node_id, resource, amount)
-- No row for what the host never had: a host without rows books none.
WHERE amounts.amount > 0
    OR EXISTS (
        SELECT FROM node_resources
        WHERE node_resources.node_id = amounts.node_id
            AND node_resources.resource = amounts.resource
    )
ORDER BY amounts.node_id, amounts.resource
ON CONFLICT (node_id, resource) DO UPDATE
SET allocatable = excluded.allocatable,
    ceiling = greatest(
        floor(excluded.allocatable * node_resources.ratio), node_resources.allocated
    )
WHERE node_resources.allocatable <> excluded.allocatable
RETURNING node_id, resource;

-- name: overcommitted
-- Rows whose host shrank under what is booked: nothing new fits until it does again.
SELECT node_id, resource, floor(allocatable * ratio)::bigint, allocated
FROM node_resources
WHERE (%(node_ids)s::text[] IS NULL OR node_id = ANY(%(node_ids)s::text[]))
    AND allocated > floor(allocatable * ratio)
ORDER BY node_id, resource;

-- name: free_until
-- The level of what others book from an instant on, at each of its steps; the first step at which
-- the claims would not fit on top of it.
WITH claims AS (
    SELECT node_id, resource, sum(amount) AS amount
    FROM unnest(%(node_ids)s::text[], %(resources)s::text[], %(amounts)s::bigint[])
        AS claims (node_id, resource, amount)
    GROUP BY node_id, resource
),
edges AS (
    -- Nobody needs to have anything for a host that shrank to have too little.
    SELECT node_id, resource, %(after)s::timestamptz AS at, 0::bigint AS change
    FROM claims
    UNION ALL
    SELECT node_id, resource, edge.at, edge.change
    FROM resource_bookings
    JOIN claims USING (node_id, resource)
    CROSS JOIN LATERAL (
        VALUES
            (greatest(lower(during), %(after)s::timestamptz), resource_bookings.amount),
            (upper(during), -resource_bookings.amount)
    ) AS edge (at, change)
    WHERE upper(during) > %(after)s::timestamptz
),
steps AS (
    SELECT
        node_id,
        resource,
        at,
        sum(change) OVER (PARTITION BY node_id, resource ORDER BY at, change) AS level
    FROM edges
)
SELECT min(steps.at)
FROM steps
JOIN claims USING (node_id, resource)
JOIN node_resources USING (node_id, resource)
WHERE steps.level + claims.amount > floor(node_resources.allocatable * node_resources.ratio);
