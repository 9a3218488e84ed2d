-- What agents report (N7), applied in the order of their journals.

-- name: lock_session
-- C37: only the live session applies reports, one call at a time. The time-out bounds what a stuck
-- rival may cost; it comes in the same round trip.
SELECT applied_seq, set_config('statement_timeout', %(timeout_ms)s::int::text, true)
FROM node_sessions
WHERE node_id = %(node_id)s AND epoch = %(epoch)s::bigint
FOR NO KEY UPDATE;

-- name: store_allocations
-- Only on assignments of the reporting node: one of another node is as unknown as any other (R26).
-- The signed text is kept as it came (N11); the reservations' reconciler judges it.
WITH said AS (
    SELECT *
    FROM unnest(
        %(allocation_ids)s::text[], %(reported)s::text[], %(seqs)s::bigint[], %(bodies)s::text[],
        %(texts)s::bytea[], %(signatures)s::bytea[], %(kids)s::text[]
    ) AS said (allocation_id, reported, seq, body, signed_text, signature, kid)
),
mine AS (
    SELECT assignments.allocation_id
    FROM assignments
    JOIN said USING (allocation_id)
    WHERE assignments.node_id = %(node_id)s
    ORDER BY assignments.allocation_id
    FOR NO KEY UPDATE OF assignments
)
UPDATE assignments
SET reported = said.reported,
    report_seq = said.seq,
    reported_at = compute_now(),
    report = said.body::jsonb,
    bound_report = said.signed_text,
    bound_sig = said.signature,
    bound_sig_kid = said.kid
FROM said
JOIN mine USING (allocation_id)
WHERE assignments.allocation_id = said.allocation_id
RETURNING assignments.owner_key;

-- name: store_use
-- Only the first use counts; on assignments of the reporting node, as above.
WITH mine AS (
    SELECT allocation_id
    FROM assignments
    WHERE node_id = %(node_id)s
        AND allocation_id = ANY(%(allocation_ids)s::text[])
        AND used_at IS NULL
    ORDER BY allocation_id
    FOR NO KEY UPDATE
)
UPDATE assignments
SET used_at = compute_now()
FROM mine
WHERE assignments.allocation_id = mine.allocation_id
RETURNING assignments.owner_key;

-- name: lock_inventory
SELECT body
FROM node_inventories
WHERE node_id = %(node_id)s
FOR NO KEY UPDATE;

-- name: store_inventory
-- The same inventory again stays applied: agents report it at every start.
INSERT INTO node_inventories (node_id, seq, body, received_at, error)
VALUES (%(node_id)s, %(seq)s::bigint, %(body)s::jsonb, compute_now(), '')
ON CONFLICT (node_id) DO UPDATE
SET seq = excluded.seq,
    body = excluded.body,
    received_at = CASE
        WHEN node_inventories.body = excluded.body THEN node_inventories.received_at
        ELSE excluded.received_at
    END,
    applied_at = CASE
        WHEN node_inventories.body = excluded.body THEN node_inventories.applied_at
    END,
    error = CASE WHEN node_inventories.body = excluded.body THEN node_inventories.error ELSE '' END
RETURNING applied_at IS NULL;

-- name: applied
UPDATE node_sessions
SET applied_seq = %(seq)s::bigint
WHERE node_id = %(node_id)s AND epoch = %(epoch)s::bigint;

-- name: ending
-- What the node may still hold, though nobody wants it any more.
SELECT allocation_id
FROM assignments
WHERE node_id = %(node_id)s
    AND NOT wanted
    AND entered_at IS NOT NULL
    AND reported NOT IN ('released', 'failed')
ORDER BY allocation_id;
