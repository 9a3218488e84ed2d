-- What metrics say of hosts and their devices.

-- name: agents
-- Nodes by what is known of their agents; one that never said hello has no condition.
SELECT coalesce(node_conditions.type, 'never'), count(*)
FROM nodes
LEFT JOIN node_conditions
    ON node_conditions.node_id = nodes.id
    AND node_conditions.type IN ('Connected', 'Disconnected', 'Unreachable')
WHERE nodes.state <> 'retired'
GROUP BY 1
ORDER BY 1;

-- name: nodes
SELECT state, cordoned, count(*)
FROM nodes
GROUP BY state, cordoned
ORDER BY state, cordoned;

-- name: devices
-- What can be booked, by model: the first that is true of a device counts.
SELECT
    devices.model, devices.bookable_mode,
    CASE
        WHEN devices.quarantined THEN 'quarantined'
        WHEN NOT devices.healthy THEN 'unhealthy'
        WHEN nodes.state <> 'ready' THEN 'unreachable'
        WHEN nodes.cordoned THEN 'cordoned'
        ELSE 'usable'
    END AS state,
    count(*)
FROM devices
JOIN nodes ON nodes.id = devices.node_id AND nodes.state <> 'retired'
WHERE devices.bookable_mode IS NOT NULL
GROUP BY 1, 2, 3
ORDER BY 1, 2, 3;
