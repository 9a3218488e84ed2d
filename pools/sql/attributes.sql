-- name: models
-- The models a pool has: what a request that names none may be given.
SELECT DISTINCT devices.model
FROM devices
JOIN nodes ON nodes.id = devices.node_id
WHERE nodes.pool_id = %(pool_id)s AND devices.bookable_mode IS NOT NULL
ORDER BY devices.model;
