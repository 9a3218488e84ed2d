-- Self-checks (C39).

-- name: triggers
-- Present and switched on.
SELECT tgname
  FROM pg_trigger
 WHERE tgname = ANY (%(names)s::text[]) AND tgenabled <> 'D'
 ORDER BY tgname;

-- name: server_time
-- The database host's own clock, also where business time is simulated.
SELECT clock_timestamp();  -- check-sql-now: allow
