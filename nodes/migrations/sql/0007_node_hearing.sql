-- C38: since when, and until when, we would have heard of each node had it spoken.
-- A gateway that beats has flushed what it knows in the same transaction, so its last beat is how
-- far we can tell of its nodes; and it was there without a gap since up_since. What is silence is
-- measured between these two, never up to the clock: while nobody listens, nobody is silent.
-- Where a node's own gateway beats no more, the other gateways listen for it, from a minute after
-- its gateway's lease ran out: agents find the next one within that. One that has not said hello
-- yet may do so at any gateway.
CREATE FUNCTION node_hearing()
RETURNS TABLE (
    node_id text, last_seen_at timestamptz, heard_since timestamptz, heard_until timestamptz
)
LANGUAGE sql STABLE AS $$
    WITH gateways AS (
        SELECT
            gateway_watch.gateway_id,
            gateway_watch.beat_at,
            gateway_watch.up_since,
            gateway_watch.beat_at > max(gateway_watch.beat_at) OVER () - interval '15 seconds'
                AS beating
        FROM gateway_watch
    ),
    together AS (
        SELECT
            max(gateways.beat_at) AS beat_at,
            min(gateways.up_since) FILTER (WHERE gateways.beating) AS up_since
        FROM gateways
    )
    SELECT
        nodes.id,
        node_sessions.last_seen_at,
        greatest(
            coalesce(own.up_since, together.up_since),
            CASE
                WHEN own.gateway_id IS NULL
                THEN coalesce(leases.expires_at, node_sessions.last_seen_at)
                    + interval '60 seconds'
            END
        ),
        coalesce(own.beat_at, together.beat_at)
    FROM nodes
    CROSS JOIN together
    LEFT JOIN node_sessions ON node_sessions.node_id = nodes.id
    LEFT JOIN gateways AS own ON own.gateway_id = node_sessions.gateway_id AND own.beating
    LEFT JOIN leases ON leases.name = 'gateway:' || node_sessions.gateway_id
$$;
