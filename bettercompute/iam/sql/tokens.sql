-- name: find
-- A live token with all a request needs of it, in one row: account, tenant, role, policies.
SELECT
  api_tokens.id,
  api_tokens.secret_hash,
  api_tokens.name,
  api_tokens.requests_per_second,
  api_tokens.agent,
  api_tokens.confirm,
  coalesce(api_tokens.expires_at <= compute_now(), false) AS expired,
  coalesce(api_tokens.last_used_at <= compute_now() - interval '60 seconds', true) AS stale,
  accounts.id, accounts.username, accounts.is_staff, accounts.is_superuser, accounts.time_zone,
  tenants.id, tenants.slug, tenants.name, memberships.role,
  coalesce((
    SELECT string_agg(policies.id || ':' || policies.version, ',' ORDER BY policies.id)
    FROM policies
    WHERE policies.enabled AND (policies.tenant_id IS NULL OR policies.tenant_id = tenants.id)
  ), '') AS fingerprint
FROM api_tokens
JOIN accounts ON accounts.id = api_tokens.account_id AND accounts.is_active
JOIN tenants ON tenants.id = api_tokens.tenant_id
LEFT JOIN memberships
  ON memberships.account_id = accounts.id AND memberships.tenant_id = tenants.id
WHERE api_tokens.id = %(id)s AND api_tokens.revoked_at IS NULL;

-- name: touch
-- Whoever comes second within a minute changes nothing, and nobody waits for anybody.
UPDATE api_tokens SET last_used_at = compute_now()
WHERE id = (
  SELECT id FROM api_tokens
  WHERE id = %(id)s
    AND coalesce(last_used_at <= compute_now() - interval '60 seconds', true)
  FOR NO KEY UPDATE SKIP LOCKED
);

-- name: revoke
UPDATE api_tokens SET revoked_at = compute_now()
WHERE id = %(id)s
  AND tenant_id = %(tenant_id)s
  AND (account_id = %(account_id)s OR %(anyones)s::boolean)
  AND revoked_at IS NULL;
