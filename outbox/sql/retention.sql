-- Removing what everybody has read and is old (C24).

-- name: events
-- The beginning of the order, up to the first row that is young, that a cursor has not passed, or
-- that is the newest. Cursors only ever move on, so what this statement sees of them is safe.
WITH newest AS (
    SELECT txid, seq
      FROM outbox
     WHERE txid < pg_snapshot_xmin(pg_current_snapshot())
     ORDER BY txid DESC, seq DESC
     LIMIT 1
), first AS (
    SELECT txid, seq, time
      FROM outbox
     WHERE (txid, seq) < (SELECT txid, seq FROM newest)
     ORDER BY txid, seq
     LIMIT %(limit)s::int
), may_go AS (
    SELECT seq,
           bool_and(time <= compute_now() - make_interval(secs => %(seconds)s::double precision)
                    AND NOT EXISTS (SELECT FROM outbox_cursors AS c
                                     WHERE (c.txid, c.seq) < (first.txid, first.seq)))
               OVER (ORDER BY txid, seq) AS whole
      FROM first
)
DELETE FROM outbox
 USING may_go
 WHERE may_go.whole AND outbox.seq = may_go.seq;

-- name: changes
-- Old entries that a readable later one about the same resource makes needless.
DELETE FROM authz_changes
 WHERE seq IN (
    SELECT old.seq
      FROM authz_changes AS old
     WHERE old.changed_at <= compute_now() - make_interval(secs => %(seconds)s::double precision)
       AND EXISTS (SELECT FROM authz_changes AS later
                    WHERE later.resource_id = old.resource_id
                      AND (later.txid, later.seq) > (old.txid, old.seq)
                      AND later.txid < pg_snapshot_xmin(pg_current_snapshot()))
     LIMIT %(limit)s::int
 );
