-- name: record
-- The present state and the feed's entry together: neither can be there without the other.
WITH present AS (
  INSERT INTO authz_resources (id, kind, tenant_id, attributes, pending)
  VALUES (
    %(id)s, %(kind)s, %(tenant_id)s, %(attributes)s::jsonb, %(pending)s::jsonb
  )
  ON CONFLICT (id) DO UPDATE
    SET attributes = excluded.attributes, pending = excluded.pending
  RETURNING id, kind, tenant_id, attributes, pending
)
INSERT INTO authz_changes (resource_id, kind, tenant_id, state)
SELECT
  id, kind, tenant_id,
  jsonb_build_object('attributes', attributes, 'pending', pending)
FROM present;

-- name: amend
-- Some attributes, the pending change or both, and the feed's entry with the whole state. In one
-- statement, so that two who amend different attributes do not undo each other.
WITH present AS (
  UPDATE authz_resources
  SET
    attributes = attributes || %(changes)s::jsonb,
    pending = CASE WHEN %(keeps_pending)s::boolean THEN pending ELSE %(pending)s::jsonb END
  WHERE id = %(id)s
  RETURNING id, kind, tenant_id, attributes, pending
)
INSERT INTO authz_changes (resource_id, kind, tenant_id, state)
SELECT
  id, kind, tenant_id,
  jsonb_build_object('attributes', attributes, 'pending', pending)
FROM present;

-- name: present
-- Whole states in the shape of the feed's entries.
SELECT id, kind, tenant_id, jsonb_build_object('attributes', attributes, 'pending', pending)
FROM authz_resources
WHERE id > %(after_id)s::text
ORDER BY id
LIMIT %(limit)s::int;

-- name: attributes
SELECT attributes FROM authz_resources WHERE id = %(id)s;

-- name: attributes_of_many
SELECT id, attributes FROM authz_resources WHERE id = ANY(%(ids)s::text[]) ORDER BY id;
