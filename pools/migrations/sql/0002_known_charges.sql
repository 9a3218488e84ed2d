-- What was charged before charges named their pool and holder, where there are reservations at all:
-- a new database has no such table yet.
DO $$
BEGIN
    IF to_regclass('reservations') IS NOT NULL THEN
        UPDATE quota_charges
        SET pool_id = reservations.pool_id, account_id = reservations.owner_id
        FROM reservations
        WHERE reservations.id = quota_charges.owner_key;
    END IF;
END
$$;

-- What offers named was not yet a limit.
INSERT INTO quota_usage (tenant_id, pool_id, offer_id, resource, used, max, version)
SELECT
    offers.tenant_id, offers.pool_id, offers.id, named.key,
    coalesce(sum(quota_charges.amount), 0)::bigint, named.value::bigint, 1
FROM offers
CROSS JOIN LATERAL jsonb_each_text(offers.resources) AS named
LEFT JOIN quota_charges
    ON quota_charges.tenant_id = offers.tenant_id
    AND quota_charges.pool_id = offers.pool_id
    AND quota_charges.resource = named.key
GROUP BY offers.id, named.key, named.value
ORDER BY offers.id, named.key;
