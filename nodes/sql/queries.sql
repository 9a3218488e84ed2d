-- name: page
-- Nodes of the pools that a tenant owns, or of all for an operator, by id.
SELECT
    nodes.id, nodes.pool_id, nodes.name, nodes.state, nodes.cordoned, nodes.version,
    atoms.bookable, atoms.healthy,
    ARRAY(
        SELECT type FROM node_conditions WHERE node_conditions.node_id = nodes.id ORDER BY type
    )
FROM nodes
JOIN pools ON pools.id = nodes.pool_id
CROSS JOIN LATERAL (
    SELECT
        count(*) AS bookable,
        count(*) FILTER (WHERE healthy AND NOT quarantined) AS healthy
    FROM devices
    WHERE devices.node_id = nodes.id AND devices.bookable_mode IS NOT NULL
) AS atoms
WHERE (%(tenant_id)s::text IS NULL OR pools.tenant_id = %(tenant_id)s::text)
    AND (%(pool_id)s::text IS NULL OR nodes.pool_id = %(pool_id)s::text)
    AND (%(state)s::text IS NULL OR nodes.state = %(state)s::text)
    AND (%(node_id)s::text IS NULL OR nodes.id = %(node_id)s::text)
    AND nodes.id > %(after)s::text
ORDER BY nodes.id
LIMIT %(limit)s::int;

-- name: effect
SELECT count(*), coalesce(sum(cardinality(device_ids)), 0)::bigint, max(until)
FROM assignments
WHERE node_id = %(node_id)s;

-- name: occupants
-- Who holds a node, or one of its devices, now or later.
SELECT owner_key, allocation_id, device_ids, until, wanted
FROM assignments
WHERE node_id = %(node_id)s
    AND (%(device_id)s::text IS NULL OR %(device_id)s::text = ANY (device_ids))
ORDER BY until, allocation_id;
