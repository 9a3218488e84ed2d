-- Who is in charge of what, for people (C29).

-- name: listed
-- Roles that somebody holds, held, or could hold. A gateway's role is its own: one that has lapsed
-- is a gateway that is gone, and nobody's loss. A pool's is held while its line is placed.
SELECT coalesce(leases.name, wanted.name), coalesce(expires_at > compute_now(), false),
       coalesce(owner, ''), coalesce(note, ''), coalesce(epoch, 0), acquired_at,
       greatest(interval '0', expires_at - compute_now())
  FROM unnest(%(names)s::text[]) AS wanted (name)
  FULL JOIN leases ON leases.name = wanted.name
 WHERE wanted.name IS NOT NULL OR expires_at > compute_now()
    OR split_part(leases.name, ':', 1) NOT IN ('gateway', 'pool')
 ORDER BY split_part(coalesce(leases.name, wanted.name), ':', 1),
          length(coalesce(leases.name, wanted.name)), coalesce(leases.name, wanted.name)
 LIMIT 1000;
