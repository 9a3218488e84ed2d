-- name: access
-- R38: a pool is there for its owner and for whom it is offered to; for anybody else it is not.
SELECT
    pools.id, pools.tenant_id, pools.name, pools.region, pools.placer, pools.policy, pools.version,
    offers.id, offers.resources, pool_hardware.generation,
    EXISTS (
        SELECT FROM budgets
        WHERE budgets.tenant_id = %(tenant_id)s::text
            AND (budgets.pool_id IS NULL OR budgets.pool_id = pools.id)
    )
FROM pools
LEFT JOIN pool_hardware ON pool_hardware.pool_id = pools.id
LEFT JOIN offers ON offers.pool_id = pools.id AND offers.tenant_id = %(tenant_id)s::text
WHERE pools.id = %(pool_id)s::text
    AND (pools.tenant_id = %(tenant_id)s::text OR offers.id IS NOT NULL);

-- name: access_all
-- Every pool a tenant may book: its own first, then by name.
SELECT
    pools.id, pools.tenant_id, pools.name, pools.region, pools.placer, pools.policy, pools.version,
    offers.id, offers.resources, pool_hardware.generation,
    EXISTS (
        SELECT FROM budgets
        WHERE budgets.tenant_id = %(tenant_id)s::text
            AND (budgets.pool_id IS NULL OR budgets.pool_id = pools.id)
    )
FROM pools
LEFT JOIN pool_hardware ON pool_hardware.pool_id = pools.id
LEFT JOIN offers ON offers.pool_id = pools.id AND offers.tenant_id = %(tenant_id)s::text
WHERE pools.tenant_id = %(tenant_id)s::text OR offers.id IS NOT NULL
ORDER BY (pools.tenant_id = %(tenant_id)s::text) DESC, pools.name, pools.id;

-- name: by_id
-- A pool as itself sees it: for reconcilers, which act for nobody.
SELECT
    pools.id, pools.tenant_id, pools.name, pools.region, pools.placer, pools.policy, pools.version,
    offers.id, offers.resources, pool_hardware.generation,
    EXISTS (
        SELECT FROM budgets
        WHERE budgets.tenant_id = %(tenant_id)s::text
            AND (budgets.pool_id IS NULL OR budgets.pool_id = pools.id)
    )
FROM pools
LEFT JOIN pool_hardware ON pool_hardware.pool_id = pools.id
LEFT JOIN offers ON offers.pool_id = pools.id AND offers.tenant_id = %(tenant_id)s::text
WHERE pools.id = %(pool_id)s::text;

-- name: lock
-- Whoever books for several reservations at once, or adds to bookings of one, takes this first:
-- what they book is not sorted together. Nothing that only refers to the pool waits for it.
SELECT id FROM pools WHERE id = %(pool_id)s FOR NO KEY UPDATE;
