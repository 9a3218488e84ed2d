-- name: seats
-- The tenants of an account, each with the fingerprint of the policies that bind it.
SELECT
  tenants.id, tenants.slug, tenants.name, memberships.role,
  coalesce((
    SELECT string_agg(policies.id || ':' || policies.version, ',' ORDER BY policies.id)
    FROM policies
    WHERE policies.enabled AND (policies.tenant_id IS NULL OR policies.tenant_id = tenants.id)
  ), '') AS fingerprint
FROM memberships
JOIN tenants ON tenants.id = memberships.tenant_id
WHERE memberships.account_id = %(account_id)s
ORDER BY tenants.slug, tenants.id;

-- name: tenant
-- Any tenant, as an operator sees it: with an admin's rights.
SELECT
  tenants.id, tenants.slug, tenants.name, 'admin' AS role,
  coalesce((
    SELECT string_agg(policies.id || ':' || policies.version, ',' ORDER BY policies.id)
    FROM policies
    WHERE policies.enabled AND (policies.tenant_id IS NULL OR policies.tenant_id = tenants.id)
  ), '') AS fingerprint
FROM tenants
WHERE tenants.id = %(tenant_id)s;
