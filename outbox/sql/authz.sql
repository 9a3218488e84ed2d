-- Reading the authorization feed: the rules of reader.sql (C21, C23).

-- name: read
-- Behind the horizon, in the order of transactions: what comes later sorts later.
SELECT o.txid::text::bigint, o.seq, o.resource_id, o.kind, o.tenant_id, o.state, o.changed_at
  FROM authz_changes AS o
 WHERE o.txid < pg_snapshot_xmin(pg_current_snapshot())
   AND (o.txid, o.seq) > (%(txid)s::text::xid8, %(seq)s::bigint)
   AND (%(until_txid)s::text IS NULL
        OR (o.txid, o.seq) <= (%(until_txid)s::text::xid8, %(until_seq)s::bigint))
   AND (%(types)s::text[] IS NULL OR o.kind = ANY (%(types)s::text[]))
   AND (%(tenant_id)s::text IS NULL OR o.tenant_id = %(tenant_id)s::text)
 ORDER BY o.txid, o.seq
 LIMIT %(limit)s::int;

-- name: end
-- The last position that a reader may have reached now; no row where there is nothing to read.
-- Ordered by the column: a bare "txid" would be the number it is selected as, which has no index.
SELECT o.txid::text::bigint, o.seq
  FROM authz_changes AS o
 WHERE o.txid < pg_snapshot_xmin(pg_current_snapshot())
 ORDER BY o.txid DESC, o.seq DESC
 LIMIT 1;

-- name: knows
-- Whether a reader can have come from here: the row it read last is still there.
SELECT 1
  FROM authz_changes
 WHERE txid = %(txid)s::text::xid8 AND seq = %(seq)s::bigint
   AND txid < pg_snapshot_xmin(pg_current_snapshot());
