-- name: of
SELECT
    (
        SELECT array_agg(name ORDER BY name)
        FROM nodes
        WHERE id = ANY(%(node_ids)s::text[]) AND state = 'unreachable'
    ),
    (
        SELECT array_agg(id ORDER BY id)
        FROM devices
        WHERE id = ANY(%(device_ids)s::text[]) AND NOT healthy
    ),
    (
        SELECT array_agg(DISTINCT nodes.name ORDER BY nodes.name)
        FROM node_resources
        JOIN nodes ON nodes.id = node_resources.node_id
        WHERE node_resources.node_id = ANY(%(node_ids)s::text[])
            AND node_resources.allocated > floor(node_resources.allocatable * node_resources.ratio)
    );
