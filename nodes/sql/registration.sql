-- name: share_pools
-- Maintenance of a whole pool is announced for the nodes that are there: who announces it locks the
-- pool, so a new node comes before, and is met, or after, and is planned around.
SELECT id
FROM pools
WHERE id = ANY(%(pool_ids)s::text[])
ORDER BY id
FOR SHARE;
