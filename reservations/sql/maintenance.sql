-- name: affected
-- Whose reservations these are.
SELECT
    reservations.id, reservations.tenant_id, tenants.name, reservations.owner_id, accounts.username,
    reservations.state
FROM reservations
JOIN tenants ON tenants.id = reservations.tenant_id
JOIN accounts ON accounts.id = reservations.owner_id
WHERE reservations.id = ANY(%(ids)s::text[])
ORDER BY reservations.id;
