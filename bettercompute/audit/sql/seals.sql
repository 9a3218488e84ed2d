-- Sealing what was entered, and looking whether it is still so.

-- name: last
-- The end of the chain.
SELECT number, digest, upto
  FROM audit_seals
 ORDER BY number DESC
 LIMIT 1;

-- name: unsealed
-- What is in no seal yet. Entries appear out of their sequence, since transactions commit so; none
-- is open for an hour, so nothing appears before what was sealed longer ago than that.
WITH settled AS (
    SELECT number, upto
      FROM audit_seals
     WHERE sealed_at <= compute_now() - interval '1 hour'
     ORDER BY number DESC
     LIMIT 1
), recent AS (
    SELECT range_agg(members) AS members
      FROM audit_seals
     WHERE number > coalesce((SELECT number FROM settled), 0)
)
SELECT e.seq, e.mac, e.at
  FROM audit_entries AS e, recent
 WHERE e.seq >= coalesce((SELECT upto FROM settled), 0)
   AND (recent.members IS NULL OR NOT recent.members @> e.seq)
 ORDER BY e.seq
 LIMIT %(limit)s::int;

-- name: seal
INSERT INTO audit_seals (number, sealed_at, members, count, upto, root, key_id, digest)
VALUES (%(number)s::bigint, %(sealed_at)s::timestamptz, %(members)s::int8multirange,
        %(count)s::int, %(upto)s::bigint, %(root)s::bytea, %(key_id)s::text, %(digest)s::bytea);

-- name: forget
SELECT audit_forget(%(seconds)s::double precision);

-- name: chain
-- Links in their order, from one number on.
SELECT number, sealed_at, members::text, count, upto, root, key_id, digest, removed_at
  FROM audit_seals
 WHERE number >= %(first)s::bigint
 ORDER BY number
 LIMIT %(limit)s::int;

-- name: sealed
-- The entries of one seal.
SELECT e.seq, e.id, e.at, e.tenant_id, e.account_id, e.username, e.operator, e.role, e.via,
       e.token_id, e.token_name, e.address, e.user_agent, e.request_id, e.action, e.object_kind,
       e.object_id, e.outcome, e.code, e.policies, e.detail, e.key_id, e.mac
  FROM audit_seals AS s
  JOIN audit_entries AS e
    ON e.seq >= lower(s.members) AND e.seq < upper(s.members) AND s.members @> e.seq
 WHERE s.number = %(number)s::bigint
 ORDER BY e.seq;
