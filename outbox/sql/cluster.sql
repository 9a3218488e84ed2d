-- The database cluster whose transaction ids the rows carry (C21).

-- name: remember
INSERT INTO outbox_cluster (id, system_identifier)
SELECT 1, system_identifier::text
  FROM pg_control_system()
    ON CONFLICT (id) DO NOTHING;

-- name: compare
SELECT c.system_identifier, s.system_identifier::text
  FROM outbox_cluster AS c, pg_control_system() AS s;

-- name: lock
LOCK TABLE outbox, outbox_cursors, authz_changes IN ACCESS EXCLUSIVE MODE;

-- name: place_cursors
-- Each cursor becomes the number of events it has passed: the sequence its last one gets below.
UPDATE outbox_cursors AS c
   SET seq = (SELECT count(*) FROM outbox AS o WHERE (o.txid, o.seq) <= (c.txid, c.seq)),
       txid = '0'::xid8;

-- name: number_events
-- All of the old cluster's events sort before all of the new one's, in the order they had. Negative
-- first: a sequence is unique at every moment of the statement.
WITH numbered AS (
    SELECT seq, row_number() OVER (ORDER BY txid, seq) AS place
      FROM outbox
)
UPDATE outbox AS o
   SET seq = -numbered.place, txid = '0'::xid8
  FROM numbered
 WHERE o.seq = numbered.seq;

-- name: turn_events
UPDATE outbox SET seq = -seq WHERE seq < 0;

-- name: number_changes
WITH numbered AS (
    SELECT seq, row_number() OVER (ORDER BY txid, seq) AS place
      FROM authz_changes
)
UPDATE authz_changes AS o
   SET seq = -numbered.place, txid = '0'::xid8
  FROM numbered
 WHERE o.seq = numbered.seq;

-- name: turn_changes
UPDATE authz_changes SET seq = -seq WHERE seq < 0;

-- name: adopt
UPDATE outbox_cluster
   SET system_identifier = (SELECT system_identifier::text FROM pg_control_system());
