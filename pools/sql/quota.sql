-- name: charge
-- C14, all resources or none, under every quota that applies: the tenant's own, and where they are
-- limited too, those of the pool and of its offer. `locked_rows` waits for rivals, sorted, and reads
-- the rows as they left them; what is judged is that. A guard on the updated row itself would be
-- judged first on the version from before the wait, and could refuse one resource of several that
-- all fit. Written as a difference, so nothing overflows.
WITH asked AS (
    SELECT resource, amount
    FROM unnest(%(resources)s::text[], %(amounts)s::bigint[]) AS asked (resource, amount)
),
locked_rows AS (
    SELECT
        quota_usage.id, quota_usage.pool_id, quota_usage.used, quota_usage.max,
        asked.resource, asked.amount
    FROM quota_usage
    JOIN asked USING (resource)
    WHERE quota_usage.tenant_id = %(tenant_id)s::text
        AND (quota_usage.pool_id IS NULL OR quota_usage.pool_id = %(pool_id)s::text)
    ORDER BY quota_usage.id
    FOR NO KEY UPDATE OF quota_usage
),
all_fit AS (
    -- A resource without a quota of the tenant is granted nothing (R30).
    SELECT
        count(*) FILTER (WHERE locked_rows.pool_id IS NULL) = (SELECT count(*) FROM asked)
        AND bool_and(locked_rows.amount <= locked_rows.max - locked_rows.used) AS answer
    FROM locked_rows
),
charged_rows AS (
    UPDATE quota_usage
    SET used = quota_usage.used + locked_rows.amount, version = quota_usage.version + 1
    FROM locked_rows
    WHERE quota_usage.id = locked_rows.id
        AND (SELECT answer FROM all_fit)
    RETURNING quota_usage.pool_id, locked_rows.resource, locked_rows.amount
)
INSERT INTO quota_charges (owner_key, tenant_id, pool_id, account_id, resource, amount)
SELECT
    %(owner_key)s::text, %(tenant_id)s::text, %(pool_id)s::text, %(account_id)s::text,
    resource, amount
FROM charged_rows
WHERE pool_id IS NULL
ORDER BY resource;

-- name: refund
-- The charge rows are what is given back, and they are gone with it: nothing is refunded twice.
WITH charges AS (
    DELETE FROM quota_charges
    WHERE owner_key = ANY(%(owner_keys)s::text[])
    RETURNING tenant_id, pool_id, resource, amount
),
given_back AS (
    SELECT quota_usage.id, sum(charges.amount)::bigint AS amount
    FROM charges
    JOIN quota_usage
        ON quota_usage.tenant_id = charges.tenant_id
        AND quota_usage.resource = charges.resource
        AND (quota_usage.pool_id IS NULL OR quota_usage.pool_id = charges.pool_id)
    GROUP BY quota_usage.id
),
locked_rows AS (
    SELECT quota_usage.id, given_back.amount
    FROM quota_usage
    JOIN given_back USING (id)
    ORDER BY quota_usage.id
    FOR NO KEY UPDATE OF quota_usage
)
UPDATE quota_usage
SET used = quota_usage.used - locked_rows.amount, version = quota_usage.version + 1
FROM locked_rows
WHERE quota_usage.id = locked_rows.id;

-- name: lower
-- A range took fewer devices than it was charged for: the difference goes back.
WITH wanted AS (
    SELECT resource, amount
    FROM unnest(%(resources)s::text[], %(amounts)s::bigint[]) AS wanted (resource, amount)
),
locked_rows AS (
    SELECT quota_usage.id, quota_usage.resource
    FROM quota_usage
    JOIN quota_charges
        ON quota_charges.tenant_id = quota_usage.tenant_id
        AND quota_charges.resource = quota_usage.resource
        AND (quota_usage.pool_id IS NULL OR quota_usage.pool_id = quota_charges.pool_id)
    JOIN wanted ON wanted.resource = quota_usage.resource
    WHERE quota_charges.owner_key = %(owner_key)s::text
    ORDER BY quota_usage.id
    FOR NO KEY UPDATE OF quota_usage
),
lowered_charges AS (
    UPDATE quota_charges
    SET amount = wanted.amount
    FROM wanted
    JOIN quota_charges AS before
        ON before.resource = wanted.resource AND before.owner_key = %(owner_key)s::text
    WHERE quota_charges.id = before.id
        AND quota_charges.amount > wanted.amount
        AND EXISTS (SELECT FROM locked_rows WHERE locked_rows.resource = before.resource)
    RETURNING before.resource, before.amount - wanted.amount AS difference
)
UPDATE quota_usage
SET used = quota_usage.used - lowered_charges.difference, version = quota_usage.version + 1
FROM lowered_charges
JOIN locked_rows USING (resource)
WHERE quota_usage.id = locked_rows.id;

-- name: usage
-- What a tenant holds and may hold: over all, then by pool, then by offer.
SELECT resource, used, max, pool_id, offer_id
FROM quota_usage
WHERE tenant_id = %(tenant_id)s::text
ORDER BY pool_id NULLS FIRST, offer_id NULLS FIRST, resource;

-- name: held
-- What one member of a tenant holds or waits for: the reservations, and their GPUs in thousandths.
SELECT count(*), coalesce(sum(amount), 0)::bigint
FROM quota_charges
WHERE tenant_id = %(tenant_id)s::text
    AND account_id = %(account_id)s::text
    AND resource = 'gpuMilli'
    AND owner_key <> %(besides)s::text;

-- name: set_max
-- A limit below what is held is accepted and admits nothing new until it fits.
INSERT INTO quota_usage (tenant_id, resource, used, max, version)
VALUES (%(tenant_id)s::text, %(resource)s::text, 0, %(max)s::bigint, 1)
ON CONFLICT (tenant_id, resource, pool_id, offer_id) DO UPDATE
SET max = excluded.max, version = quota_usage.version + 1
WHERE quota_usage.max <> excluded.max;

-- name: grant_missing
-- What an offer names, for a tenant that has no limit of its own.
INSERT INTO quota_usage (tenant_id, resource, used, max, version)
SELECT %(tenant_id)s::text, grants.resource, 0, grants.max, 1
FROM unnest(%(resources)s::text[], %(amounts)s::bigint[]) AS grants (resource, max)
ORDER BY grants.resource
ON CONFLICT (tenant_id, resource, pool_id, offer_id) DO NOTHING;

-- name: unbalanced
-- Rows whose use is not the sum of the charges they count: there must be none (C39). And charges
-- that no quota of their tenant counts.
WITH counted AS (
    SELECT
        quota_usage.id, quota_usage.tenant_id, quota_usage.resource, quota_usage.pool_id,
        quota_usage.offer_id, quota_usage.used, coalesce(sum(quota_charges.amount), 0) AS charged
    FROM quota_usage
    LEFT JOIN quota_charges
        ON quota_charges.tenant_id = quota_usage.tenant_id
        AND quota_charges.resource = quota_usage.resource
        AND (quota_usage.pool_id IS NULL OR quota_usage.pool_id = quota_charges.pool_id)
    GROUP BY quota_usage.id
)
SELECT tenant_id, resource, used, charged::bigint, pool_id, offer_id
FROM counted
WHERE used <> charged
UNION ALL
SELECT tenant_id, resource, 0, sum(amount)::bigint, NULL, NULL
FROM quota_charges
WHERE NOT EXISTS (
    SELECT FROM quota_usage
    WHERE quota_usage.tenant_id = quota_charges.tenant_id
        AND quota_usage.resource = quota_charges.resource
        AND quota_usage.pool_id IS NULL
)
GROUP BY tenant_id, resource
ORDER BY 1, 2, 5 NULLS FIRST, 6 NULLS FIRST;
