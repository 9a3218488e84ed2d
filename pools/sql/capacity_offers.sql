-- Capacity offers: plans that a create may take within a minute (R21). Nothing is held for them.

-- name: make
INSERT INTO capacity_offers (id, tenant_id, pool_id, kinds, request, parts, made_at, expires_at)
SELECT
    made.id, %(tenant_id)s, %(pool_id)s, ARRAY(SELECT jsonb_array_elements_text(made.kinds)),
    made.request, made.parts, compute_now(),
    compute_now() + make_interval(secs => %(seconds)s::double precision)
FROM jsonb_to_recordset(%(offers)s::jsonb) AS made (id text, kinds jsonb, request jsonb, parts jsonb)
ORDER BY made.id
RETURNING id, expires_at;

-- name: read
-- Another tenant's is not there.
SELECT request, parts, expires_at, expires_at <= compute_now()
FROM capacity_offers
WHERE id = %(id)s AND tenant_id = %(tenant_id)s;

-- name: forget
-- Long after anybody could take them; meanwhile they say that they have expired.
DELETE FROM capacity_offers
WHERE id IN (
    SELECT id
    FROM capacity_offers
    WHERE expires_at <= compute_now() - %(age)s::interval
    ORDER BY expires_at
    LIMIT %(limit)s::int
);
