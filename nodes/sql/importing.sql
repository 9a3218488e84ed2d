-- name: pools
SELECT pools.id, pools.name, tenants.slug
FROM pools
JOIN tenants ON tenants.id = pools.tenant_id
ORDER BY tenants.slug, pools.name;
