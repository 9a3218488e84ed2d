-- name: misjudged
-- Nodes whose condition is not what their silence says (C36), of these or of all. Better only by
-- contact: a node is Connected when it was heard of. Worse only by silence that is the node's own:
-- it counts from when we began to listen, up to when we last did (C38).
SELECT judged.node_id, judged.before, judged.after
FROM (
    SELECT
        hearing.node_id,
        coalesce(node_conditions.type, '') AS before,
        CASE
            WHEN hearing.unheard < make_interval(secs => %(live_seconds)s::int) THEN 'Connected'
            WHEN hearing.silence >= make_interval(secs => %(unreachable_seconds)s::int)
                THEN 'Unreachable'
            WHEN node_conditions.type = 'Unreachable' THEN 'Unreachable'
            WHEN hearing.silence >= make_interval(secs => %(live_seconds)s::int)
                THEN 'Disconnected'
            ELSE coalesce(node_conditions.type, '')
        END AS after
    FROM (
        SELECT
            node_id,
            heard_until - last_seen_at AS unheard,
            heard_until - greatest(last_seen_at, heard_since) AS silence
        FROM node_hearing()
    ) AS hearing
    JOIN nodes ON nodes.id = hearing.node_id AND nodes.state <> 'retired'
    LEFT JOIN node_conditions
        ON node_conditions.node_id = hearing.node_id
        AND node_conditions.type IN ('Connected', 'Disconnected', 'Unreachable')
    -- Neither a node that never said hello is judged, nor any before a gateway has ever beaten.
    WHERE hearing.unheard IS NOT NULL
        AND (%(node_ids)s::text[] IS NULL OR hearing.node_id = ANY(%(node_ids)s::text[]))
) AS judged
WHERE judged.before <> judged.after
ORDER BY judged.node_id;

-- name: lock_sessions
-- Nobody is heard of until this judgement is written, so one that came too late changes nothing.
SELECT node_id
FROM node_sessions
WHERE node_id = ANY(%(node_ids)s::text[])
ORDER BY node_id
FOR SHARE;
