-- Confirmations: what agents ask their people for (R36).

-- name: ask
-- The question, unless the same one stands already: of two that ask at once one asks.
WITH moment AS MATERIALIZED (
    SELECT date_trunc('milliseconds', compute_now()) AS now
)
INSERT INTO confirmations (
    id, tenant_id, account_id, token_id, agent, action, resource_id, asked, digest, state, reason,
    asked_at, expires_at, version
)
SELECT
    %(id)s, %(tenant_id)s, %(account_id)s, %(token_id)s, %(agent)s, %(action)s, %(resource_id)s,
    %(asked)s::jsonb, %(digest)s, 'open', '', moment.now, moment.now + %(lifetime)s::interval, 1
FROM moment
ON CONFLICT (token_id, action, resource_id, digest) WHERE state IN ('open', 'approved')
DO NOTHING;

-- name: too_many
-- A row where as many of a token's questions as may be await their answer. Those who ask at once may
-- all be let: no harm.
SELECT count(*)
FROM confirmations
WHERE token_id = %(token_id)s AND state = 'open' AND expires_at > compute_now()
HAVING count(*) >= %(most)s::int;

-- name: live_keys
-- Those that have a deadline ahead: for the resync (C27).
SELECT id FROM confirmations WHERE state IN ('open', 'approved') ORDER BY id;

-- name: open_of
-- How many await this person's answer at a tenant.
SELECT count(*)
FROM confirmations
WHERE account_id = %(account_id)s
    AND tenant_id = %(tenant_id)s
    AND state = 'open'
    AND expires_at > compute_now();

-- name: forget
-- What was answered and is long over, but for what a series or a reservation rests on that is not
-- over itself: the first of them says which.
DELETE FROM confirmations
WHERE id IN (
    SELECT id
    FROM confirmations
    WHERE
        ended_at < compute_now() - %(age)s::interval
        AND NOT EXISTS (
            SELECT
            FROM reservations AS first
            LEFT JOIN reservation_series ON reservation_series.id = first.series_id
            WHERE
                first.id = confirmations.resource_id
                AND first.confirmation_id = confirmations.id
                AND (
                    first.ended_at IS NULL
                    OR reservation_series.state = 'active'
                    OR EXISTS (
                        SELECT
                        FROM reservations AS later
                        WHERE later.series_id = first.series_id AND later.ended_at IS NULL
                    )
                )
        )
    ORDER BY ended_at, id
    LIMIT %(limit)s::int
);
