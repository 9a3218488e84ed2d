-- name: of_tenant
-- R39: the budgets of a tenant that count what it reserves in this pool; without a pool, all.
SELECT id, name, pool_id, gpu_milli_hours, period, time_zone, starts_at, ends_at
FROM budgets
WHERE tenant_id = %(tenant_id)s::text
    AND (
        %(pool_id)s::text IS NULL
        OR budgets.pool_id IS NULL
        OR budgets.pool_id = %(pool_id)s::text
    )
ORDER BY id;

-- name: lock
-- The same, one transaction at a time: what is summed up behind it has in it all that was admitted.
SELECT id, name, pool_id, gpu_milli_hours, period, time_zone, starts_at, ends_at
FROM budgets
WHERE tenant_id = %(tenant_id)s::text
    AND (budgets.pool_id IS NULL OR budgets.pool_id = %(pool_id)s::text)
ORDER BY id
FOR NO KEY UPDATE OF budgets;
