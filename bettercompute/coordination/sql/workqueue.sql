-- The work queue: what is due, and that no wake-up is lost (C25-C27).

-- name: enqueue
-- C25. A row that exists is dirtied: its generation grows, so a run that is under way cannot delete
-- it. The earlier of two times wins. Sorted, because every transaction that wakes several keys
-- must lock them in one order (C19). Whoever asked last is whose trace goes on; what belongs to none
-- changes nothing of that.
INSERT INTO work_queue (kind, key, shard, gen, attempts, last_error, origin, not_before)
SELECT wanted.kind, wanted.key, wanted.shard, 1, 0, '', %(origin)s::text,
       min(coalesce(wanted.not_before, compute_now()))
  FROM unnest(%(kinds)s::text[], %(keys)s::text[], %(shards)s::int[], %(times)s::timestamptz[])
       AS wanted (kind, key, shard, not_before)
 GROUP BY wanted.kind, wanted.key, wanted.shard
 ORDER BY wanted.kind, wanted.key
    ON CONFLICT (kind, key) DO UPDATE
   SET gen = work_queue.gen + 1,
       origin = coalesce(excluded.origin, work_queue.origin),
       not_before = least(work_queue.not_before, excluded.not_before);

-- name: due_shards
-- Of these shards, those with something to do, the most overdue first. One look into the index a
-- shard, however many thousands are due: it is asked before every batch.
SELECT wanted.shard
  FROM unnest(%(shards)s::int[]) AS wanted (shard)
 CROSS JOIN LATERAL (
    SELECT not_before
      FROM work_queue
     WHERE work_queue.shard = wanted.shard
       AND not_before <= compute_now()
       AND (claimed_until IS NULL OR claimed_until <= compute_now())
     ORDER BY not_before
     LIMIT 1
 ) AS first
 ORDER BY first.not_before, wanted.shard;

-- name: claim
-- C26: rows another worker is claiming are skipped, not waited for; overdue work goes in time order.
WITH due_rows AS (
    SELECT id
      FROM work_queue
     WHERE shard = ANY (%(shards)s::int[])
       AND not_before <= compute_now()
       AND (claimed_until IS NULL OR claimed_until <= compute_now())
     ORDER BY not_before, id
     LIMIT %(limit)s::int
       FOR UPDATE SKIP LOCKED
)
UPDATE work_queue
   SET claimed_until = compute_now() + make_interval(secs => %(claim_seconds)s::double precision)
  FROM due_rows
 WHERE work_queue.id = due_rows.id
RETURNING work_queue.id, kind, key, gen, attempts, not_before,
          compute_now() - not_before, origin;

-- name: unclaim
-- A shard's new holder voids the claims of the old one: nobody waits for them to lapse.
UPDATE work_queue
   SET claimed_until = NULL
 WHERE shard = ANY (%(shards)s::int[]) AND claimed_until IS NOT NULL;

-- name: finish
-- C26: gone only if nothing woke it during the run. By id, since a key that was deleted and
-- enqueued again starts at generation 1 once more.
DELETE FROM work_queue
 WHERE id = %(id)s::bigint AND gen = %(gen)s::bigint;

-- name: postpone
-- Done for now; look again at next_at. Only what is soon still belongs to what asked for it.
UPDATE work_queue
   SET not_before = %(next_at)s::timestamptz, claimed_until = NULL, attempts = 0, last_error = '',
       failing_since = NULL,
       origin = CASE WHEN %(next_at)s::timestamptz <= compute_now() + interval '15 minutes'
                     THEN %(origin)s::text END
 WHERE id = %(id)s::bigint AND gen = %(gen)s::bigint;

-- name: leave
-- Woken during the run: it runs again, now.
UPDATE work_queue
   SET claimed_until = NULL, attempts = 0, last_error = '', failing_since = NULL
 WHERE id = %(id)s::bigint AND gen > %(gen)s::bigint;

-- name: fail
-- It stays, visible, with what went wrong; the next try is later each time. Woken during the run it
-- is due when it was woken for: what changed may be just what was missing.
UPDATE work_queue
   SET attempts = attempts + 1,
       failing_since = coalesce(failing_since, compute_now()),
       last_error = %(error)s::text,
       not_before = CASE WHEN gen > %(gen)s::bigint THEN not_before
                         ELSE compute_now()
                              + make_interval(secs => %(backoff_seconds)s::double precision) END,
       claimed_until = NULL
 WHERE id = %(id)s::bigint;

-- name: lag
-- How many rows are overdue, and by how long the worst.
SELECT count(*), coalesce(compute_now() - min(not_before), interval '0')
  FROM work_queue
 WHERE not_before <= compute_now();

-- name: failing
-- Rows that failed several times in a row, the worst first.
SELECT kind, key, attempts, coalesce(compute_now() - failing_since, interval '0'), last_error
  FROM work_queue
 WHERE attempts >= %(attempts_min)s::int
 ORDER BY attempts DESC, kind, key
 LIMIT %(limit)s::int;
