-- The database cluster whose transaction ids the rows carry (C21).

-- name: remember
INSERT INTO outbox_cluster (id, system_identifier)
SELECT 1, system_identifier::text
  FROM pg_control_system()
    ON CONFLICT (id) DO NOTHING;

-- name: compare
SELECT c.system_identifier, s.system_identifier::text
  FROM outbox_cluster AS c, pg_control_system() AS s;

-- name: unbound
-- Millions of rows take minutes.
SELECT set_config('statement_timeout', '0', true), set_config('transaction_timeout', '0', true);

-- name: lock
-- The feed first, as a create writes it.
LOCK TABLE authz_changes, outbox, outbox_cursors, outbox_cluster IN ACCESS EXCLUSIVE MODE;

-- name: rebase_events
-- What the old cluster wrote keeps its order and sorts before all that this cluster writes: its
-- transaction becomes 0. Each cursor goes to behind the last of these that it has passed.
-- A row of this cluster was written by the transaction that it names, a restored one by the restore.
-- Should the restore have had the number of a transaction of the old cluster, its other rows tell.
-- New numbers are the sequence's next: no position is ever given out twice.
WITH written AS (
    SELECT txid, seq,
           bool_and(xmin = txid::xid AND txid > '0'::xid8) OVER (PARTITION BY xmin::text) AS here
      FROM outbox
), foreign_events AS MATERIALIZED (
    SELECT txid, seq, nextval('outbox_seq_seq') AS new_seq
      FROM (SELECT txid, seq FROM written WHERE NOT here ORDER BY txid, seq) AS in_order
), moved_cursors AS (
    UPDATE outbox_cursors AS c
       SET txid = '0'::xid8,
           seq = coalesce((SELECT max(f.new_seq) FROM foreign_events AS f
                            WHERE (f.txid, f.seq) <= (c.txid, c.seq)), 0)
)
UPDATE outbox AS o
   SET txid = '0'::xid8, seq = f.new_seq
  FROM foreign_events AS f
 WHERE o.seq = f.seq;

-- name: rebase_changes
-- The same for the authorization feed; its readers keep their positions themselves.
WITH written AS (
    SELECT txid, seq,
           bool_and(xmin = txid::xid AND txid > '0'::xid8) OVER (PARTITION BY xmin::text) AS here
      FROM authz_changes
), foreign_changes AS MATERIALIZED (
    SELECT txid, seq, nextval('authz_changes_seq_seq') AS new_seq
      FROM (SELECT txid, seq FROM written WHERE NOT here ORDER BY txid, seq) AS in_order
)
UPDATE authz_changes AS o
   SET txid = '0'::xid8, seq = f.new_seq
  FROM foreign_changes AS f
 WHERE o.seq = f.seq;

-- name: adopt
UPDATE outbox_cluster
   SET system_identifier = (SELECT system_identifier::text FROM pg_control_system());
