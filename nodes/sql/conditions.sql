-- name: raise_many
-- A condition that stands already keeps its time; what it says may change.
INSERT INTO node_conditions (node_id, type, reason, message, since)
SELECT raised.node_id, %(type)s, raised.reason, raised.message, compute_now()
FROM unnest(%(node_ids)s::text[], %(reasons)s::text[], %(messages)s::text[])
    AS raised (node_id, reason, message)
ORDER BY raised.node_id
ON CONFLICT (node_id, type) DO UPDATE
SET reason = excluded.reason, message = excluded.message
WHERE (node_conditions.reason, node_conditions.message)
    IS DISTINCT FROM (excluded.reason, excluded.message)
RETURNING node_id, (xmax = 0) AS is_new;

-- name: clear_many
DELETE FROM node_conditions
WHERE type = ANY(%(types)s::text[]) AND node_id = ANY(%(node_ids)s::text[])
RETURNING node_id;
