-- name: open
-- The series of a first occurrence; nothing where an equal request opened it at the same time.
INSERT INTO reservation_series (
    id, tenant_id, pool_id, owner_id, state, request, rule, time_zone, first_local, decision,
    conditions, next_at, version, agent, confirmation_id
)
VALUES (
    %(id)s, %(tenant_id)s, %(pool_id)s, %(owner_id)s, 'active', %(request)s::jsonb, %(rule)s,
    %(time_zone)s, %(first_local)s, %(decision)s::jsonb, '[]', %(next_at)s::timestamptz, 1,
    %(agent)s, %(confirmation_id)s
)
ON CONFLICT (id) DO NOTHING;
