-- name: watch_gateways
-- C38: a gap between heartbeats of the gateways as a whole is an outage of ours, over with the
-- first beat after it. One statement, so two judges at once do no harm. Answers nothing before any
-- gateway ever beat.
INSERT INTO gateway_watch (id, beat_at, recovered_at)
SELECT 1, latest.beat_at, latest.beat_at
FROM (SELECT max(beaten_at) AS beat_at FROM heartbeats WHERE role = 'gateway') AS latest
WHERE latest.beat_at IS NOT NULL
ON CONFLICT (id) DO UPDATE
SET beat_at = greatest(gateway_watch.beat_at, excluded.beat_at),
    recovered_at = CASE
        WHEN excluded.beat_at
            > gateway_watch.beat_at + make_interval(secs => %(gap_seconds)s::int)
        THEN excluded.beat_at
        ELSE gateway_watch.recovered_at
    END
RETURNING
    recovered_at,
    beat_at > compute_now() - make_interval(secs => %(beating_seconds)s::int) AS beating;

-- name: misjudged
-- Nodes whose condition is not what their silence says (C36). Better only by contact: a node is
-- Connected when it was heard of. Worse only by silence that is the node's own: it counts from the
-- end of an outage of ours, and a node whose gateway went has time to find another.
SELECT judged.node_id, judged.before, judged.after
FROM (
    SELECT
        aged.node_id,
        coalesce(node_conditions.type, '') AS before,
        CASE
            WHEN aged.unheard < make_interval(secs => %(live_seconds)s::int) THEN 'Connected'
            WHEN aged.silence >= make_interval(secs => %(unreachable_seconds)s::int)
                THEN 'Unreachable'
            WHEN node_conditions.type = 'Unreachable' THEN 'Unreachable'
            WHEN aged.silence >= make_interval(secs => %(live_seconds)s::int)
                THEN 'Disconnected'
            ELSE coalesce(node_conditions.type, '')
        END AS after
    FROM (
        SELECT
            node_sessions.node_id,
            compute_now() - node_sessions.last_seen_at AS unheard,
            compute_now() - greatest(
                node_sessions.last_seen_at,
                %(recovered_at)s::timestamptz,
                leases.expires_at + make_interval(secs => %(move_seconds)s::int)
            ) AS silence
        FROM node_sessions
        JOIN nodes ON nodes.id = node_sessions.node_id AND nodes.state <> 'retired'
        LEFT JOIN leases
            ON leases.name = 'gateway:' || node_sessions.gateway_id
            AND leases.expires_at <= compute_now()
    ) AS aged
    LEFT JOIN node_conditions
        ON node_conditions.node_id = aged.node_id
        AND node_conditions.type IN ('Connected', 'Disconnected', 'Unreachable')
) AS judged
WHERE judged.before <> judged.after
ORDER BY judged.node_id;
