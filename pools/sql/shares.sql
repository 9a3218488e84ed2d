-- name: smallest
-- R30: of each resource, the smallest amount per physical GPU that any host of the pool can give.
-- Every physical GPU counts, bookable or not. As a fraction: nothing is rounded before the end.
WITH gpus AS (
    SELECT devices.node_id, count(*) AS number
    FROM nodes
    JOIN devices ON devices.node_id = nodes.id
    WHERE nodes.pool_id = %(pool_id)s::text AND nodes.state <> 'retired' AND devices.kind = 'gpu'
    GROUP BY devices.node_id
)
SELECT DISTINCT ON (node_resources.resource)
    node_resources.resource,
    floor(node_resources.allocatable * node_resources.ratio)::bigint AS amount,
    gpus.number
FROM gpus
JOIN node_resources ON node_resources.node_id = gpus.node_id
WHERE node_resources.resource = ANY(%(resources)s::text[])
ORDER BY
    node_resources.resource,
    floor(node_resources.allocatable * node_resources.ratio) / gpus.number,
    node_resources.node_id;
