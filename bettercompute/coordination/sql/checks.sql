-- Self-checks (C39).

-- name: limits
-- For the transaction of one check: looking must never hurt what is looked at.
SELECT set_config('statement_timeout', %(statement_ms)s::int::text, true),
       set_config('lock_timeout', %(lock_ms)s::int::text, true);

-- name: server_time
-- The database host's own clock, also where business time is simulated.
SELECT clock_timestamp();  -- check-sql-now: allow

-- name: clock_source
-- What compute_now() is made of for this session, whatever schema it was found in.
SELECT (SELECT btrim(prosrc) FROM pg_proc WHERE oid = to_regprocedure('compute_now()'));

-- name: long_transactions
-- By the server's clock: a transaction's age is its own matter.
SELECT pid, concat_ws(' ', usename, nullif(application_name, ''), host(client_addr)), state,
       date_trunc('seconds', clock_timestamp() - xact_start),  -- check-sql-now: allow
       left(query, 100)
  FROM pg_stat_activity
 WHERE datname = current_database() AND backend_type = 'client backend'
   AND pid <> pg_backend_pid()
   AND xact_start < clock_timestamp()  -- check-sql-now: allow
                    - make_interval(secs => %(seconds)s::double precision)
 ORDER BY xact_start
 LIMIT 10;
