-- name: projected_beside_the_feed
-- Resources whose projection is not the last entry of the feed about them.
WITH latest AS (
  SELECT DISTINCT ON (resource_id) resource_id, state
  FROM authz_changes
  ORDER BY resource_id, txid DESC, seq DESC
)
SELECT authz_resources.id
FROM authz_resources
LEFT JOIN latest ON latest.resource_id = authz_resources.id
WHERE latest.state IS DISTINCT FROM
  jsonb_build_object('attributes', authz_resources.attributes, 'pending', authz_resources.pending)
ORDER BY authz_resources.id
LIMIT 20;
