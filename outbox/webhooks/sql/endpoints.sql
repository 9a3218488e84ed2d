-- name: lock
-- For a change: its version and its state, and whether its owner may still be told.
SELECT e.version, e.state, e.tenant_id, e.owner_id,
       webhook_owner_stays(e.owner_id, e.tenant_id)
  FROM webhook_endpoints AS e
 WHERE e.id = %(id)s::text
   FOR NO KEY UPDATE OF e;

-- name: create
-- Unless there are as many as there may be. Two at once may make one more: no harm.
INSERT INTO webhook_endpoints
       (id, tenant_id, owner_id, url, description, event_types, subject, secret, former_secrets,
        former_until, lane, failures, state, version, disabled_at, disabled_reason)
SELECT %(id)s::text, %(tenant_id)s::text, %(owner_id)s::text, %(url)s::text, %(description)s::text,
       %(event_types)s::text[], %(subject)s::text, %(secret)s::text, '{}', '{}', 'new', 0,
       CASE WHEN %(enabled)s::boolean THEN 'enabled' ELSE 'disabled' END, 1,
       CASE WHEN %(enabled)s::boolean THEN NULL ELSE compute_now() END,
       CASE WHEN %(enabled)s::boolean THEN '' ELSE 'request' END
 WHERE (SELECT count(*)
          FROM webhook_endpoints
         WHERE tenant_id IS NOT DISTINCT FROM %(tenant_id)s::text AND state <> 'deleted')
       < %(most)s::int;

-- name: amend
-- What is null stays. Another receiver: how the last one answered says nothing of it.
UPDATE webhook_endpoints
   SET url = coalesce(%(url)s::text, url),
       description = coalesce(%(description)s::text, description),
       event_types = coalesce(%(event_types)s::text[], event_types),
       subject = coalesce(%(subject)s::text, subject),
       owner_id = %(owner_id)s::text, version = version + 1,
       lane = CASE WHEN url = coalesce(%(url)s::text, url) THEN lane ELSE 'new' END,
       failures = CASE WHEN url = coalesce(%(url)s::text, url) THEN failures ELSE 0 END,
       failing_since = CASE WHEN url = coalesce(%(url)s::text, url) THEN failing_since END,
       paused_until = CASE WHEN url = coalesce(%(url)s::text, url) THEN paused_until END
 WHERE id = %(id)s::text
RETURNING version;

-- name: hurry
-- What waits for its next try need not wait: the endpoint has another address, or is enabled again.
-- Few wait so: while an endpoint takes nothing, one at a time is tried. In the order in which who
-- sends a span again locks them.
WITH waiting AS (
    SELECT id
      FROM webhook_deliveries
     WHERE endpoint_id = %(id)s::text AND status = 'pending' AND next_at > compute_now()
       AND (claimed_until IS NULL OR claimed_until <= compute_now())
     ORDER BY id
       FOR NO KEY UPDATE
)
UPDATE webhook_deliveries AS d
   SET next_at = compute_now(), attempts_before = d.attempts
  FROM waiting
 WHERE d.id = waiting.id;

-- name: rotate
-- The secret so far becomes the newest of the former ones, unless as many sign as may.
UPDATE webhook_endpoints AS e
   SET secret = %(secret)s::text, version = e.version + 1,
       (former_secrets, former_until) = (
           SELECT array_agg(f.secret ORDER BY f.place), array_agg(f.until ORDER BY f.place)
             FROM (SELECT e.secret, compute_now() + %(overlap)s::interval AS until, 0 AS place
                    UNION ALL
                   SELECT was.secret, was.until, was.place
                     FROM unnest(e.former_secrets, e.former_until) WITH ORDINALITY
                          AS was (secret, until, place)) AS f
            WHERE f.until > compute_now())
 WHERE e.id = %(id)s::text
   AND (SELECT count(*) FROM unnest(e.former_until) AS f (until) WHERE f.until > compute_now())
       < %(most)s::int;

-- name: replace_leaked
-- Nothing but the new secret signs any more.
UPDATE webhook_endpoints
   SET secret = %(secret)s::text, former_secrets = '{}', former_until = '{}', version = version + 1
 WHERE id = %(id)s::text;

-- name: forget_secrets
-- Before it is deleted; in the same transaction.
UPDATE webhook_endpoints
   SET secret = '', former_secrets = '{}', former_until = '{}'
 WHERE id = %(id)s::text;

-- name: deserted
-- Enabled, and whose owner may not be told any more.
SELECT id
  FROM webhook_endpoints
 WHERE state = 'enabled' AND NOT webhook_owner_stays(owner_id, tenant_id)
 ORDER BY id;

-- name: sealed_otherwise
-- Whose secrets another key sealed than the one in use.
SELECT id
  FROM webhook_endpoints
 WHERE EXISTS (SELECT
                 FROM unnest(secret || former_secrets) AS each (sealed)
                WHERE sealed <> '' AND split_part(sealed, ':', 1) <> %(current)s::text)
 ORDER BY id;

-- name: sealed
SELECT secret, former_secrets
  FROM webhook_endpoints
 WHERE id = %(id)s::text
   FOR NO KEY UPDATE;

-- name: reseal
UPDATE webhook_endpoints
   SET secret = %(secret)s::text, former_secrets = %(former_secrets)s::text[]
 WHERE id = %(id)s::text;

-- name: forget_former
-- A secret that signs no more is kept no more. Locked in the order in which a batch of results is.
WITH ended AS (
    SELECT id
      FROM webhook_endpoints
     WHERE compute_now() >= ANY (former_until)
     ORDER BY id
       FOR NO KEY UPDATE
)
UPDATE webhook_endpoints AS e
   SET (former_secrets, former_until) = (
           SELECT coalesce(array_agg(f.secret ORDER BY f.place), '{}'),
                  coalesce(array_agg(f.until ORDER BY f.place), '{}')
             FROM unnest(e.former_secrets, e.former_until) WITH ORDINALITY AS f (secret, until, place)
            WHERE f.until > compute_now())
  FROM ended
 WHERE e.id = ended.id;

-- name: drop
-- Deleted, and nothing of what it was sent is left.
DELETE FROM webhook_endpoints AS e
 WHERE e.state = 'deleted'
   AND NOT EXISTS (SELECT FROM webhook_deliveries AS d WHERE d.endpoint_id = e.id);
