-- name: change
-- N6: one more generation for each node, sorted. The row is also the lock of the node's desired
-- state: take it before reading who holds what.
INSERT INTO node_desired (node_id, generation, changed_at)
SELECT changed.node_id, 1, compute_now()
FROM unnest(%(node_ids)s::text[]) AS changed (node_id)
ORDER BY changed.node_id
ON CONFLICT (node_id) DO UPDATE
SET generation = node_desired.generation + 1, changed_at = excluded.changed_at;

-- name: lock
-- The same lock where nothing changes for the agent.
SELECT node_id
FROM node_desired
WHERE node_id = ANY(%(node_ids)s::text[])
ORDER BY node_id
FOR NO KEY UPDATE;

-- name: generation
SELECT generation
FROM node_desired
WHERE node_id = %(node_id)s;

-- name: read
-- One statement, so the assignments are those of this generation.
SELECT
    coalesce(node_desired.generation, 0),
    assignments.allocation_id,
    assignments.device_ids,
    assignments.until,
    assignments.binding,
    assignments.limits
FROM (SELECT %(node_id)s::text AS node_id) AS node
LEFT JOIN node_desired USING (node_id)
LEFT JOIN assignments
    ON assignments.node_id = node.node_id
    AND assignments.wanted
    AND assignments.entered_at IS NOT NULL
ORDER BY assignments.allocation_id;
