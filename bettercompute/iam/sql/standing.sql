-- Whether those who hold a connection open are still who they were.

-- name: present
-- A row for each credential that still holds, by its place in the lists. Operators need no seat.
WITH asked AS (
  SELECT asked.*
  FROM unnest(
    %(accounts)s::text[], %(tenants)s::text[], %(tokens)s::text[], %(sessions)s::text[],
    %(stamps)s::text[]
  ) WITH ORDINALITY AS asked (account_id, tenant_id, token_id, session_key, stamp, place)
),
bound AS (
  SELECT tenants.tenant_id, coalesce((
    SELECT string_agg(policies.id || ':' || policies.version, ',' ORDER BY policies.id)
    FROM policies
    WHERE policies.enabled
      AND (policies.tenant_id IS NULL OR policies.tenant_id = tenants.tenant_id)
  ), '') AS fingerprint
  FROM (SELECT DISTINCT tenant_id FROM asked) AS tenants
)
SELECT
  asked.place::int,
  memberships.role,
  accounts.is_staff OR accounts.is_superuser,
  bound.fingerprint,
  coalesce(api_tokens.agent, ''),
  coalesce(api_tokens.confirm, '{}'),
  coalesce(api_tokens.expires_at, django_session.expire_date) - compute_now()
FROM asked
JOIN bound ON bound.tenant_id = asked.tenant_id
JOIN accounts ON accounts.id = asked.account_id AND accounts.is_active
LEFT JOIN memberships
  ON memberships.account_id = asked.account_id AND memberships.tenant_id = asked.tenant_id
LEFT JOIN api_tokens
  ON api_tokens.id = asked.token_id
  AND api_tokens.account_id = asked.account_id
  AND api_tokens.revoked_at IS NULL
  AND coalesce(api_tokens.expires_at > compute_now(), true)
LEFT JOIN django_session
  ON django_session.session_key = asked.session_key
  AND django_session.expire_date > compute_now()
  AND encode(sha256(convert_to(accounts.password, 'UTF8')), 'hex') = asked.stamp
WHERE (api_tokens.id IS NOT NULL OR django_session.session_key IS NOT NULL)
  AND (memberships.role IS NOT NULL OR accounts.is_staff OR accounts.is_superuser)
ORDER BY asked.place;
