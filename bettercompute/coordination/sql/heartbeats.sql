-- Heartbeats: which processes of the control plane could write a moment ago (C38).

-- name: beat
INSERT INTO heartbeats (process, role, beaten_at)
VALUES (%(process)s::text, %(role)s::text, compute_now())
    ON CONFLICT (process) DO UPDATE SET beaten_at = greatest(heartbeats.beaten_at, compute_now());

-- name: stop
DELETE FROM heartbeats WHERE process = %(process)s::text;

-- name: alive
SELECT process
  FROM heartbeats
 WHERE role = %(role)s::text
   AND beaten_at > compute_now() - make_interval(secs => %(seconds)s::double precision)
 ORDER BY process;

-- name: forget
DELETE FROM heartbeats
 WHERE beaten_at < compute_now() - make_interval(secs => %(seconds)s::double precision);

-- name: forget_own_leases
-- A gateway's lease is named after it, and no process gets its id again, so no epoch is lost (C34).
DELETE FROM leases
 WHERE name LIKE 'gateway:%%'
   AND expires_at < compute_now() - make_interval(secs => %(seconds)s::double precision);
