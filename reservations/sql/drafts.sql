-- name: record
-- Transaction 1 (R10): the draft, its authorization row and the feed's entry, or nothing where the
-- same tenant, identity and key already has a row.
WITH draft AS (
    INSERT INTO reservations (
        id, tenant_id, pool_id, owner_id, state, reason, idempotency_key, request, request_hash,
        host_share, decision, duration_ms, requested_start, lease_seconds, gpu_milli, spot, priority,
        labels, conditions, placements_failed, confirmation_id, version, series_id, occurrence_at,
        agent
    )
    VALUES (
        %(id)s, %(tenant_id)s, %(pool_id)s, %(owner_id)s, 'draft', '', %(idempotency_key)s,
        %(request)s::jsonb, %(request_hash)s, %(host_share)s::jsonb, '{}', %(duration_ms)s::bigint,
        %(requested_start)s::timestamptz, %(lease_seconds)s::bigint, %(gpu_milli)s::bigint,
        %(spot)s::boolean, %(priority)s::int, %(labels)s::jsonb, '[]', 0, %(confirmation_id)s, 1,
        %(series_id)s::text, %(occurrence_at)s::timestamptz, %(agent)s::text
    )
    ON CONFLICT (id) DO NOTHING
    RETURNING id, tenant_id, owner_id
),
shared AS (
    INSERT INTO reservation_users (reservation_id, account_id)
    SELECT draft.id, accounts.id
    FROM draft
    JOIN accounts ON accounts.id = ANY(%(users)s::text[]) AND accounts.id <> draft.owner_id
),
projected AS (
    INSERT INTO authz_resources (id, kind, tenant_id, attributes, pending)
    SELECT id, 'reservation', tenant_id, %(attributes)s::jsonb, NULL FROM draft
    ON CONFLICT (id) DO UPDATE SET attributes = excluded.attributes
    RETURNING id, kind, tenant_id, attributes, pending
),
fed AS (
    INSERT INTO authz_changes (resource_id, kind, tenant_id, state)
    SELECT
        id, kind, tenant_id,
        jsonb_build_object('attributes', attributes, 'pending', pending)
    FROM projected
    RETURNING resource_id
)
SELECT count(*) = 1 AS recorded FROM fed;

-- name: find
-- What a key already reached.
SELECT state, request_hash, host_share, decision ->> 'message', reason, confirmation_id
FROM reservations
WHERE id = %(id)s;

-- name: written_at
SELECT created_at FROM reservations WHERE id = %(id)s;

-- name: request_of
SELECT request FROM reservations WHERE id = %(id)s;

-- name: abandoned
-- Drafts nobody came back to (R9).
SELECT id
FROM reservations
WHERE state = 'draft' AND series_id IS NULL AND created_at < compute_now() - %(age)s::interval
ORDER BY created_at, id
LIMIT %(limit)s::int;
