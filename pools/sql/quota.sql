-- name: charge
-- C14, all resources or none. `locked_rows` waits for rivals, sorted, and reads the rows as they
-- left them; what is judged is that. A guard on the updated row itself would be judged first on the
-- version from before the wait, and could refuse one resource of several that all fit. Written as a
-- difference, so nothing overflows.
WITH asked AS (
    SELECT resource, amount
    FROM unnest(%(resources)s::text[], %(amounts)s::bigint[]) AS asked (resource, amount)
),
locked_rows AS (
    SELECT
        quota_usage.id, quota_usage.used, quota_usage.max, asked.resource, asked.amount
    FROM quota_usage
    JOIN asked USING (resource)
    WHERE quota_usage.tenant_id = %(tenant_id)s::text
    ORDER BY quota_usage.resource
    FOR NO KEY UPDATE OF quota_usage
),
all_fit AS (
    SELECT count(*) = (SELECT count(*) FROM asked) AS answer
    FROM locked_rows
    WHERE locked_rows.amount <= locked_rows.max - locked_rows.used
),
charged_rows AS (
    UPDATE quota_usage
    SET used = quota_usage.used + locked_rows.amount, version = quota_usage.version + 1
    FROM locked_rows
    WHERE quota_usage.id = locked_rows.id
        AND (SELECT answer FROM all_fit)
    RETURNING quota_usage.tenant_id, locked_rows.resource, locked_rows.amount
)
INSERT INTO quota_charges (owner_key, tenant_id, resource, amount)
SELECT %(owner_key)s::text, tenant_id, resource, amount
FROM charged_rows
ORDER BY resource;

-- name: refund
-- The charge rows are what is given back, and they are gone with it: nothing is refunded twice.
WITH charges AS (
    DELETE FROM quota_charges
    WHERE owner_key = ANY(%(owner_keys)s::text[])
    RETURNING tenant_id, resource, amount
),
sums AS (
    SELECT tenant_id, resource, sum(amount)::bigint AS amount
    FROM charges
    GROUP BY tenant_id, resource
),
locked_rows AS (
    SELECT quota_usage.id, sums.amount
    FROM quota_usage
    JOIN sums USING (tenant_id, resource)
    ORDER BY quota_usage.tenant_id, quota_usage.resource
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
    SELECT quota_usage.id, quota_usage.tenant_id, quota_usage.resource
    FROM quota_usage
    JOIN quota_charges USING (tenant_id, resource)
    JOIN wanted USING (resource)
    WHERE quota_charges.owner_key = %(owner_key)s::text
    ORDER BY quota_usage.resource
    FOR NO KEY UPDATE OF quota_usage
),
lowered_charges AS (
    UPDATE quota_charges
    SET amount = wanted.amount
    FROM wanted
    JOIN quota_charges AS before
        ON before.resource = wanted.resource AND before.owner_key = %(owner_key)s::text
    JOIN locked_rows
        ON locked_rows.tenant_id = before.tenant_id AND locked_rows.resource = before.resource
    WHERE quota_charges.id = before.id
        AND quota_charges.amount > wanted.amount
    RETURNING locked_rows.id, before.amount - wanted.amount AS difference
)
UPDATE quota_usage
SET used = quota_usage.used - lowered_charges.difference, version = quota_usage.version + 1
FROM lowered_charges
WHERE quota_usage.id = lowered_charges.id;

-- name: usage
-- What a tenant holds and may hold.
SELECT resource, used, max
FROM quota_usage
WHERE tenant_id = %(tenant_id)s::text
ORDER BY resource;

-- name: set_max
-- A limit below what is held is accepted and admits nothing new until it fits.
INSERT INTO quota_usage (tenant_id, resource, used, max, version)
VALUES (%(tenant_id)s::text, %(resource)s::text, 0, %(max)s::bigint, 1)
ON CONFLICT (tenant_id, resource) DO UPDATE
SET max = excluded.max, version = quota_usage.version + 1
WHERE quota_usage.max <> excluded.max;

-- name: grant_missing
-- What an offer names, for a tenant that has no limit of its own.
INSERT INTO quota_usage (tenant_id, resource, used, max, version)
SELECT %(tenant_id)s::text, grants.resource, 0, grants.max, 1
FROM unnest(%(resources)s::text[], %(amounts)s::bigint[]) AS grants (resource, max)
ORDER BY grants.resource
ON CONFLICT (tenant_id, resource) DO NOTHING;

-- name: unbalanced
-- Rows whose use is not the sum of their charges: there must be none (C39).
SELECT
    coalesce(quota_usage.tenant_id, charges.tenant_id),
    coalesce(quota_usage.resource, charges.resource),
    coalesce(quota_usage.used, 0),
    coalesce(charges.amount, 0)
FROM quota_usage
FULL JOIN (
    SELECT tenant_id, resource, sum(amount)::bigint AS amount
    FROM quota_charges
    GROUP BY tenant_id, resource
) AS charges
    ON charges.tenant_id = quota_usage.tenant_id AND charges.resource = quota_usage.resource
WHERE coalesce(quota_usage.used, 0) <> coalesce(charges.amount, 0)
ORDER BY 1, 2;
