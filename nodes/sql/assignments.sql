-- name: plan
INSERT INTO assignments (
    allocation_id, owner_key, node_id, device_ids, until, limits, binding,
    wanted, reported, report_seq, report, bound_sig_kid
)
SELECT
    planned.allocation_id,
    planned.owner_key,
    planned.node_id,
    ARRAY(SELECT jsonb_array_elements_text(planned.device_ids)),
    planned.until,
    planned.limits,
    planned.binding,
    false, '', 0, '{}', ''
FROM jsonb_to_recordset(%(planned)s::jsonb) AS planned (
    allocation_id text,
    owner_key text,
    node_id text,
    device_ids jsonb,
    until timestamptz,
    limits jsonb,
    binding text
)
ORDER BY planned.allocation_id;

-- name: not_entered
-- The nodes whose desired state has yet to gain one of these assignments.
SELECT DISTINCT node_id
FROM assignments
WHERE allocation_id = ANY(%(allocation_ids)s::text[]) AND entered_at IS NULL;

-- name: want
-- R35: an assignment enters desired state only once no earlier one may still hold one of its
-- devices on the node, or is told to: one whose node let go of it by itself, or failed, stays wanted
-- until its owner's turn, and an agent that starts anew tries it again. Until then it waits. Run
-- under the desired-state lock of the nodes, so that of two assignments for one device the second
-- sees the first.
UPDATE assignments
SET wanted = true,
    entered_at = CASE
        WHEN NOT EXISTS (
            SELECT FROM assignments AS earlier
            WHERE earlier.node_id = assignments.node_id
                AND earlier.allocation_id <> assignments.allocation_id
                AND earlier.device_ids && assignments.device_ids
                AND earlier.entered_at IS NOT NULL
                AND (earlier.wanted OR earlier.reported NOT IN ('released', 'failed'))
        )
        THEN compute_now()
    END
WHERE allocation_id = ANY(%(allocation_ids)s::text[]) AND entered_at IS NULL;

-- name: entered
SELECT allocation_id, entered_at
FROM assignments
WHERE allocation_id = ANY(%(allocation_ids)s::text[]) AND wanted AND entered_at IS NOT NULL
ORDER BY allocation_id;

-- name: in_desired_state
-- The nodes whose desired state has one of these assignments.
SELECT DISTINCT node_id
FROM assignments
WHERE allocation_id = ANY(%(allocation_ids)s::text[]) AND wanted AND entered_at IS NOT NULL;

-- name: prolong
UPDATE assignments
SET until = %(until)s::timestamptz
WHERE allocation_id = ANY(%(allocation_ids)s::text[]);

-- name: nodes_of
SELECT DISTINCT node_id
FROM assignments
WHERE allocation_id = ANY(%(allocation_ids)s::text[]);

-- name: unwant
UPDATE assignments
SET wanted = false, left_at = compute_now()
WHERE allocation_id = ANY(%(allocation_ids)s::text[]) AND wanted;

-- name: of_owner
SELECT
    allocation_id, node_id, device_ids, until, binding, wanted, entered_at,
    reported, reported_at, report, bound_report, bound_sig, bound_sig_kid
FROM assignments
WHERE owner_key = %(owner_key)s
ORDER BY allocation_id;

-- name: use_of
-- A node that is silent may have seen what it could not tell yet, so it does not count as telling.
SELECT
    array_agg(DISTINCT assignments.node_id),
    bool_and(
        nodes.system_labels ? %(label)s::text
        AND NOT EXISTS (
            SELECT FROM node_conditions
            WHERE node_conditions.node_id = nodes.id
                AND node_conditions.type IN ('Disconnected', 'Unreachable')
        )
    ),
    bool_or(assignments.used_at IS NOT NULL)
FROM assignments
JOIN nodes ON nodes.id = assignments.node_id
WHERE assignments.owner_key = %(owner_key)s AND assignments.wanted;

-- name: forget
-- Only what the node cannot hold any more: forgetting a hold would let the next one in (R35).
DELETE FROM assignments
WHERE allocation_id = ANY(%(allocation_ids)s::text[])
    AND (
        entered_at IS NULL
        OR reported IN ('released', 'failed')
        OR %(even_unconfirmed)s::boolean
    )
RETURNING allocation_id, node_id, device_ids;

-- name: earlier_left_at
-- R35: when the last of those that keep this owner's assignments waiting was told to let go; one
-- that is still wanted has not been told.
SELECT CASE WHEN every(NOT earlier.wanted) THEN max(earlier.left_at) END
FROM assignments AS waiting
JOIN assignments AS earlier
    ON earlier.node_id = waiting.node_id
    AND earlier.allocation_id <> waiting.allocation_id
    AND earlier.device_ids && waiting.device_ids
WHERE waiting.owner_key = %(owner_key)s
    AND waiting.wanted
    AND waiting.entered_at IS NULL
    AND earlier.entered_at IS NOT NULL
    AND (earlier.wanted OR earlier.reported NOT IN ('released', 'failed'));

-- name: owners_waiting
-- Whose assignment waits for one of these devices to be let go.
SELECT DISTINCT owner_key
FROM assignments
WHERE wanted
    AND entered_at IS NULL
    AND node_id = ANY(%(node_ids)s::text[])
    AND device_ids && %(device_ids)s::text[]
ORDER BY owner_key;

-- name: owners_waiting_on_node
SELECT DISTINCT owner_key
FROM assignments
WHERE wanted AND entered_at IS NULL AND node_id = %(node_id)s
ORDER BY owner_key;

-- name: owners_on_node
-- Who has anything on the node: they are woken when it changes.
SELECT DISTINCT owner_key
FROM assignments
WHERE node_id = ANY(%(node_ids)s::text[])
ORDER BY owner_key;

-- name: owners_of
SELECT allocation_id, owner_key
FROM assignments
WHERE allocation_id = ANY(%(allocation_ids)s::text[])
ORDER BY allocation_id;

-- name: unconfirmed
-- What the node may still hold though nobody wants it, the oldest first. A node that is silent is
-- not late: it cannot say so. Nor is it where we did not listen (C38): its time counts in full from
-- when we began to, and is over once we have listened to the end of it.
SELECT
    assignments.allocation_id,
    assignments.device_ids,
    due.at,
    due.at <= least(compute_now(), hearing.heard_until),
    EXISTS (
        SELECT FROM node_conditions
        WHERE node_conditions.node_id = assignments.node_id
            AND node_conditions.type IN ('Disconnected', 'Unreachable')
    )
FROM assignments
JOIN node_hearing() AS hearing USING (node_id)
CROSS JOIN LATERAL (
    SELECT greatest(assignments.left_at, hearing.heard_since)
        + make_interval(secs => %(unbind_seconds)s::int) AS at
) AS due
WHERE assignments.node_id = %(node_id)s
    AND NOT assignments.wanted
    AND assignments.entered_at IS NOT NULL
    AND assignments.left_at IS NOT NULL
    AND assignments.reported NOT IN ('released', 'failed')
ORDER BY assignments.left_at, assignments.allocation_id;

-- name: nodes_unconfirmed
SELECT DISTINCT node_id
FROM assignments
WHERE NOT wanted
    AND entered_at IS NOT NULL
    AND left_at IS NOT NULL
    AND reported NOT IN ('released', 'failed')
ORDER BY node_id;
