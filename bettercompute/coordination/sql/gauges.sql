-- What metrics say of the work queue and of the processes.

-- name: work
-- By kind: what is due, what waits for its time, what fails again and again, how late the worst is.
SELECT kind,
       count(*) FILTER (WHERE not_before <= compute_now()),
       count(*) FILTER (WHERE not_before > compute_now()),
       count(*) FILTER (WHERE attempts >= %(attempts_many)s::int),
       coalesce(max(compute_now() - not_before) FILTER (WHERE not_before <= compute_now()),
                interval '0')
  FROM work_queue
 GROUP BY kind
 ORDER BY kind;

-- name: processes
SELECT role, count(*)
  FROM heartbeats
 WHERE beaten_at > compute_now() - make_interval(secs => %(seconds)s::double precision)
 GROUP BY role
 ORDER BY role;

-- name: lease_ages
-- How long each term has lasted.
SELECT name, compute_now() - acquired_at
  FROM leases
 WHERE expires_at > compute_now()
 ORDER BY name;
