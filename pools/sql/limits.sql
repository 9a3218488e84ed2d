-- name: await_charges
-- A limit of a pool or an offer may be set while its tenant holds something there: what it counts
-- from the start is the sum of the charges. Those of a transaction that is still open are in nobody
-- else's sum, so this waits for all of them, and what comes after it sees the new row.
LOCK TABLE quota_usage IN SHARE ROW EXCLUSIVE MODE;

-- name: limit_pool
INSERT INTO quota_usage (tenant_id, pool_id, resource, used, max, version)
SELECT %(tenant_id)s::text, %(pool_id)s::text, %(resource)s::text, charged.amount, %(max)s::bigint, 1
FROM (
    SELECT coalesce(sum(amount), 0)::bigint AS amount
    FROM quota_charges
    WHERE tenant_id = %(tenant_id)s::text
        AND pool_id = %(pool_id)s::text
        AND resource = %(resource)s::text
) AS charged
ON CONFLICT (tenant_id, resource, pool_id, offer_id) DO UPDATE
SET max = excluded.max, version = quota_usage.version + 1
WHERE quota_usage.max <> excluded.max;

-- name: lift_pool
DELETE FROM quota_usage
WHERE tenant_id = %(tenant_id)s::text
    AND pool_id = %(pool_id)s::text
    AND offer_id IS NULL
    AND resource = %(resource)s::text;

-- name: limit_offer
-- What the offer names, and what it names no more.
WITH named AS (
    SELECT resource, max
    FROM unnest(%(resources)s::text[], %(amounts)s::bigint[]) AS named (resource, max)
),
lifted AS (
    DELETE FROM quota_usage
    WHERE offer_id = %(offer_id)s::text
        AND resource <> ALL(%(resources)s::text[])
)
INSERT INTO quota_usage (tenant_id, pool_id, offer_id, resource, used, max, version)
SELECT
    offers.tenant_id, offers.pool_id, offers.id, named.resource,
    coalesce(sum(quota_charges.amount), 0)::bigint, named.max, 1
FROM offers
CROSS JOIN named
LEFT JOIN quota_charges
    ON quota_charges.tenant_id = offers.tenant_id
    AND quota_charges.pool_id = offers.pool_id
    AND quota_charges.resource = named.resource
WHERE offers.id = %(offer_id)s::text
GROUP BY offers.id, named.resource, named.max
ORDER BY named.resource
ON CONFLICT (tenant_id, resource, pool_id, offer_id) DO UPDATE
SET max = excluded.max, version = quota_usage.version + 1
WHERE quota_usage.max <> excluded.max;
