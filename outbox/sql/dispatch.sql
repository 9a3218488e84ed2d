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

-- name: forget
DELETE FROM outbox_cursors WHERE sink = %(sink)s::text;

-- name: lag
-- How much each sink has before it, and since when.
SELECT c.sink, count(o.seq), coalesce(compute_now() - min(o.time), interval '0')
  FROM outbox_cursors AS c
  LEFT JOIN outbox AS o ON (o.txid, o.seq) > (c.txid, c.seq)
 GROUP BY c.sink
 ORDER BY c.sink;

-- name: stall
-- Who holds every reader back: the session or prepared transaction whose id is the snapshot's xmin,
-- the oldest that has written, in any database of the cluster. A snapshot that only reads, however
-- old, a replication slot and a standby's feedback hold back VACUUM, not this. Transactions are aged
-- by the server's own clock; one that we may not look into is as old as what it holds back.
WITH held AS (
    SELECT pg_snapshot_xmin(pg_current_snapshot())::xid AS xid,
           (SELECT compute_now() - min(time)
              FROM outbox
             WHERE txid >= pg_snapshot_xmin(pg_current_snapshot())) AS waiting
)
SELECT format('pid %%s', pid), coalesce(datname, ''), coalesce(usename, ''), application_name,
       coalesce(state, ''), coalesce(query, ''),
       coalesce(clock_timestamp() - xact_start, held.waiting, interval '0')  -- check-sql-now: allow
  FROM pg_stat_activity, held
 WHERE backend_xid = held.xid AND pid <> pg_backend_pid()
 UNION ALL
SELECT format('prepared transaction %%L', gid), database, owner, '', 'prepared', '',
       clock_timestamp() - prepared  -- check-sql-now: allow
  FROM pg_prepared_xacts, held
 WHERE transaction = held.xid;
