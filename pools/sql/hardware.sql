-- name: models
-- The models a pool has: what a request that names none may be given.
SELECT DISTINCT devices.model
FROM devices
JOIN nodes ON nodes.id = devices.node_id
WHERE nodes.pool_id = %(pool_id)s AND devices.bookable_mode IS NOT NULL
ORDER BY devices.model;

-- name: smallest_shares
-- R30: of each resource, the smallest amount per physical GPU that any host of the pool can give.
-- Every physical GPU counts, bookable or not. As a fraction: nothing is rounded before the end.
WITH gpus AS MATERIALIZED (
    SELECT devices.node_id, count(*) AS number
    FROM nodes
    JOIN devices ON devices.node_id = nodes.id
    WHERE nodes.pool_id = %(pool_id)s::text AND nodes.state <> 'retired' AND devices.kind = 'gpu'
    GROUP BY devices.node_id
),
-- Hosts are mostly alike: dividing and sorting a few kinds of them costs nothing, a thousand does.
kinds AS (
    SELECT node_resources.resource, node_resources.allocatable, node_resources.ratio, gpus.number
    FROM gpus
    JOIN node_resources ON node_resources.node_id = gpus.node_id
    WHERE node_resources.resource = ANY(%(resources)s::text[])
    GROUP BY
        node_resources.resource, node_resources.allocatable, node_resources.ratio, gpus.number
)
SELECT DISTINCT ON (resource) resource, floor(allocatable * ratio)::bigint AS amount, number
FROM kinds
ORDER BY resource, floor(allocatable * ratio) / number, number;
