-- Sessions of node agents (N5, C37): one live one a node, told apart by its epoch.

-- name: epoch
-- What a challenge is bound to: it is used up once the epoch moves on.
SELECT coalesce(node_sessions.epoch, 0), compute_now()
FROM (SELECT %(node_id)s::text AS node_id) AS asked
LEFT JOIN node_sessions USING (node_id);

-- name: key
-- The key that a hello says it is signed with, if it is this node's and good now.
SELECT node_keys.public_key, nodes.state, nodes.system_labels, compute_now()
FROM node_keys
JOIN nodes ON nodes.id = node_keys.node_id
WHERE node_keys.kid = %(kid)s::text
    AND node_keys.node_id = %(node_id)s::text
    AND node_keys.revoked_at IS NULL
    AND (node_keys.expires_at IS NULL OR node_keys.expires_at > compute_now());

-- name: open
-- C37: the next epoch supersedes the one before. Guarded by the epoch that the challenge was made
-- for, so each challenge opens one session and of two racing hellos one wins. The journal goes on.
INSERT INTO node_sessions (
    node_id, epoch, token_hash, gateway_id, boot_id, agent_version, capabilities,
    applied_seq, connected_at, last_seen_at
)
VALUES (
    %(node_id)s, %(challenged_epoch)s::bigint + 1, %(token_hash)s, %(gateway_id)s, %(boot_id)s,
    %(agent_version)s, %(capabilities)s::text[], 0, compute_now(), compute_now()
)
ON CONFLICT (node_id) DO UPDATE
SET epoch = excluded.epoch,
    token_hash = excluded.token_hash,
    gateway_id = excluded.gateway_id,
    boot_id = excluded.boot_id,
    agent_version = excluded.agent_version,
    capabilities = excluded.capabilities,
    connected_at = excluded.connected_at,
    last_seen_at = excluded.last_seen_at
WHERE node_sessions.epoch = %(challenged_epoch)s::bigint
RETURNING applied_seq;

-- name: adopt
-- A session moved here from another gateway, or from before this one's restart (N8). Its agent is
-- calling right now: without saying so, the silence of the move would be counted up to this
-- gateway's last beat.
UPDATE node_sessions
SET gateway_id = %(gateway_id)s,
    last_seen_at = greatest(last_seen_at, compute_now())
WHERE node_id = %(node_id)s
    AND epoch = %(epoch)s::bigint
    AND token_hash = %(token_hash)s
RETURNING node_id;

-- name: begin
-- The first statement of the transaction: compute_now() is the same from here on.
SELECT compute_now();

-- name: flush
-- C8, N2: ages become instants here, by the one clock. Sorted by id, since two gateways may flush
-- the same nodes. A late flush never moves last_seen_at back, nor a node back to a gateway that it
-- has left, and a superseded session moves no row.
WITH heard AS (
    SELECT
        node_id,
        epoch,
        compute_now() - make_interval(secs => age_seconds) AS seen_at
    FROM unnest(%(node_ids)s::text[], %(epochs)s::bigint[], %(ages)s::double precision[])
        AS heard (node_id, epoch, age_seconds)
),
locked AS (
    SELECT node_sessions.node_id, heard.seen_at
    FROM node_sessions
    JOIN heard USING (node_id, epoch)
    ORDER BY node_sessions.node_id
    FOR NO KEY UPDATE OF node_sessions
)
UPDATE node_sessions
SET last_seen_at = greatest(node_sessions.last_seen_at, locked.seen_at),
    gateway_id = CASE
        WHEN locked.seen_at >= node_sessions.last_seen_at THEN %(gateway_id)s
        ELSE node_sessions.gateway_id
    END
FROM locked
WHERE node_sessions.node_id = locked.node_id
RETURNING node_sessions.node_id;

-- name: news
-- Of the nodes whose agents wait here, those with another generation, or another session, than
-- they know. One query for all of them, several times a second: it answers only differences.
SELECT
    waiting.node_id,
    coalesce(node_desired.generation, 0),
    coalesce(node_sessions.epoch, 0)
FROM unnest(%(node_ids)s::text[], %(generations)s::bigint[], %(epochs)s::bigint[])
    AS waiting (node_id, generation, epoch)
LEFT JOIN node_desired USING (node_id)
LEFT JOIN node_sessions ON node_sessions.node_id = waiting.node_id
WHERE coalesce(node_desired.generation, 0) <> waiting.generation
    OR coalesce(node_sessions.epoch, 0) <> waiting.epoch
ORDER BY waiting.node_id;

-- name: settled
-- How many nodes were heard of lately and have the inventory applied that their agent reported.
SELECT count(*)
FROM node_sessions
JOIN node_inventories USING (node_id)
WHERE node_sessions.last_seen_at > compute_now() - make_interval(secs => %(seconds)s::int)
    AND node_inventories.seq > 0
    AND node_inventories.applied_at IS NOT NULL
    AND node_inventories.error = '';
