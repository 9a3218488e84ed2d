-- name: fingerprint
-- Changes with every change of a policy that binds the tenant.
SELECT coalesce(string_agg(id || ':' || version, ',' ORDER BY id), '')
FROM policies
WHERE enabled AND (tenant_id IS NULL OR tenant_id = %(tenant_id)s);

-- name: texts
-- What to compile; its ids and versions are the fingerprint it is kept under.
SELECT id, version, name, text
FROM policies
WHERE enabled AND (tenant_id IS NULL OR tenant_id = %(tenant_id)s)
ORDER BY id;
