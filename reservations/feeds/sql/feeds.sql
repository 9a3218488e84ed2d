-- name: make
-- A new feed, unless its account has as many as it may. Two at once may make one more: no harm.
INSERT INTO calendar_feeds (id, tenant_id, account_id, pool_id, secret_hash, reads)
SELECT %(id)s, %(tenant_id)s, %(account_id)s, %(pool_id)s, %(secret_hash)s, 0
WHERE (
    SELECT count(*)
    FROM calendar_feeds
    WHERE tenant_id = %(tenant_id)s AND account_id = %(account_id)s AND revoked_at IS NULL
) < %(most)s::int;

-- name: find
-- A feed that can be read, and whose it is. Whether that account still belongs to the tenant, and
-- may see the pool, is judged with every read.
SELECT
    calendar_feeds.secret_hash,
    calendar_feeds.tenant_id,
    calendar_feeds.account_id,
    calendar_feeds.pool_id
FROM calendar_feeds
JOIN accounts ON accounts.id = calendar_feeds.account_id AND accounts.is_active
WHERE calendar_feeds.id = %(id)s AND calendar_feeds.revoked_at IS NULL;

-- name: count_read
-- One more read within the hour that began with the first one; no row where that is too many.
UPDATE calendar_feeds
SET
    last_read_at = compute_now(),
    window_at = CASE
        WHEN window_at > compute_now() - interval '1 hour' THEN window_at
        ELSE compute_now()
    END,
    reads = CASE WHEN window_at > compute_now() - interval '1 hour' THEN reads + 1 ELSE 1 END
WHERE
    id = %(id)s
    AND (
        reads < %(most)s::int
        OR window_at IS NULL
        OR window_at <= compute_now() - interval '1 hour'
    );

-- name: revoke
UPDATE calendar_feeds SET revoked_at = compute_now()
WHERE id = %(id)s
  AND tenant_id = %(tenant_id)s
  AND (account_id = %(account_id)s OR %(anyones)s::boolean)
  AND revoked_at IS NULL;

-- name: of_person
-- What somebody reserved or may use, in a span: what is ahead first, each nearest to now first. What
-- was given up before its start is told while that start would matter.
SELECT found.id
FROM (
    SELECT id, state, starts_at, ends_at, ended_at
    FROM reservations
    WHERE tenant_id = %(tenant_id)s AND owner_id = %(account_id)s
    UNION ALL
    SELECT
        reservations.id,
        reservations.state,
        reservations.starts_at,
        reservations.ends_at,
        reservations.ended_at
    FROM reservation_users
    JOIN reservations ON reservations.id = reservation_users.reservation_id
    WHERE
        reservation_users.account_id = %(account_id)s
        AND reservations.tenant_id = %(tenant_id)s
) AS found
WHERE
    found.state NOT IN ('draft', 'denied')
    AND found.ends_at > found.starts_at
    AND found.ends_at > compute_now() - %(back)s::interval
    AND found.starts_at < compute_now() + %(ahead)s::interval
    AND (
        found.ends_at > compute_now()
        OR (
            found.state NOT IN ('cancelled', 'failed', 'expired')
            AND (found.ended_at IS NULL OR found.ended_at > found.starts_at)
        )
    )
ORDER BY
    found.ends_at <= compute_now(),
    abs(extract(epoch FROM found.ends_at - compute_now())),
    found.id
LIMIT %(most)s::int;

-- name: of_pool
-- Whose devices of a pool are booked when, in a span, in the same order; and how many.
WITH booked AS (
    SELECT id, tenant_id, starts_at, ends_at, placed_at
    FROM reservations
    WHERE
        pool_id = %(pool_id)s
        AND placed_at IS NOT NULL
        AND state IN ('placed', 'binding', 'active', 'released')
        AND ends_at > starts_at
        AND ends_at > compute_now() - %(back)s::interval
        AND starts_at < compute_now() + %(ahead)s::interval
        AND (ended_at IS NULL OR ended_at > starts_at)
    ORDER BY
        ends_at <= compute_now(),
        abs(extract(epoch FROM ends_at - compute_now())),
        id
    LIMIT %(most)s::int
)
SELECT
    booked.id,
    booked.tenant_id,
    booked.starts_at,
    booked.ends_at,
    booked.placed_at,
    (
        SELECT coalesce(sum(cardinality(allocations.device_ids)), 0)
        FROM allocations
        WHERE allocations.reservation_id = booked.id AND allocations.state <> 'failed'
    )::int AS devices
FROM booked
ORDER BY booked.starts_at, booked.id;
