-- Delivering events to sinks (C22).

-- name: cursor
-- A sink that is new starts before the first event kept.
INSERT INTO outbox_cursors (sink, txid, seq)
VALUES (%(sink)s::text, '0'::xid8, 0)
    ON CONFLICT (sink) DO UPDATE SET sink = excluded.sink
RETURNING txid::text::bigint, seq;

-- name: advance
-- Guarded by where it was: of two dispatchers, only one moves it.
UPDATE outbox_cursors
   SET txid = %(txid)s::text::xid8, seq = %(seq)s::bigint, moved_at = compute_now()
 WHERE sink = %(sink)s::text
   AND (txid, seq) = (%(from_txid)s::text::xid8, %(from_seq)s::bigint);

-- name: lag
-- How much each sink has before it, and since when.
SELECT c.sink, count(o.seq), coalesce(max(compute_now() - o.time), interval '0')
  FROM outbox_cursors AS c
  LEFT JOIN outbox AS o ON (o.txid, o.seq) > (c.txid, c.seq)
 GROUP BY c.sink
 ORDER BY c.sink;

-- name: horizon
-- What holds every reader back: the oldest transaction that has written, in any database of the
-- cluster. Its age is the server's own matter, so it is measured by the server's own clock.
SELECT who, clock_timestamp() - since  -- check-sql-now: allow
  FROM (SELECT format('pid %%s (%%s, %%s, %%s)', pid, datname, usename, state) AS who,
               xact_start AS since, backend_xid AS xid
          FROM pg_stat_activity
         WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
         UNION ALL
        SELECT format('prepared transaction %%s (%%s)', gid, database), prepared, transaction
          FROM pg_prepared_xacts) AS writers
 ORDER BY age(xid) DESC, who
 LIMIT 1;
