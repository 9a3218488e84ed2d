-- Reading events so that none is ever behind a cursor (C21).

-- name: read
-- Commit order is not sequence order: a row that commits late has a lower sequence than rows already
-- read. So only rows of transactions older than every one still running are taken, in the order of
-- their transactions. What comes later sorts later.
SELECT o.txid::text::bigint, o.seq, o.id, o.type, o.tenant_id, o.subject, o.data, o.time, o.origin
  FROM outbox AS o
 WHERE o.txid < pg_snapshot_xmin(pg_current_snapshot())
   AND (o.txid, o.seq) > (%(txid)s::text::xid8, %(seq)s::bigint)
   AND (%(until_txid)s::text IS NULL
        OR (o.txid, o.seq) <= (%(until_txid)s::text::xid8, %(until_seq)s::bigint))
   AND (%(types)s::text[] IS NULL OR o.type = ANY (%(types)s::text[]))
   AND (%(tenant_id)s::text IS NULL OR o.tenant_id = %(tenant_id)s::text)
   AND (%(subject)s::text IS NULL OR o.subject = %(subject)s::text)
 ORDER BY o.txid, o.seq
 LIMIT %(limit)s::int;

-- name: end
-- The last position that a reader may have reached now; no row where there is nothing to read.
-- Ordered by the column: a bare "txid" would be the number it is selected as, which has no index.
SELECT o.txid::text::bigint, o.seq
  FROM outbox AS o
 WHERE o.txid < pg_snapshot_xmin(pg_current_snapshot())
 ORDER BY o.txid DESC, o.seq DESC
 LIMIT 1;

-- name: knows
-- Whether a reader can have come from here: the row it read last is still there.
SELECT 1
  FROM outbox
 WHERE txid = %(txid)s::text::xid8 AND seq = %(seq)s::bigint
   AND txid < pg_snapshot_xmin(pg_current_snapshot());
