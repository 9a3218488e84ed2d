-- Events: what happened, written with the change it describes (C20).

-- name: publish
-- In the order given: the sequence follows it within a transaction.
INSERT INTO outbox (id, type, tenant_id, subject, data, origin)
SELECT event.id, event.type, event.tenant_id, event.subject, event.data::jsonb, %(origin)s::text
  FROM unnest(%(ids)s::text[], %(types)s::text[], %(tenants)s::text[], %(subjects)s::text[],
              %(bodies)s::text[])
       WITH ORDINALITY AS event (id, type, tenant_id, subject, data, position)
 ORDER BY event.position;

-- name: for_subject
-- The newest first: what a page about one thing shows.
SELECT txid::text::bigint, seq, id, type, tenant_id, subject, data, time
  FROM outbox
 WHERE subject = %(subject)s::text
 ORDER BY seq DESC
 LIMIT %(limit)s::int;

-- name: page
-- The newest first, and none behind "until": what is not on these pages comes to a stream from there.
-- Rows of one instant by their sequence. The oldest go first, so where the row that a cursor names
-- is gone, so is all that would follow it.
SELECT txid::text::bigint, seq, id, type, tenant_id, subject, data, time
  FROM outbox
 WHERE (txid, seq) <= (%(until_txid)s::text::xid8, %(until_seq)s::bigint)
   AND (%(tenant_id)s::text IS NULL OR tenant_id = %(tenant_id)s::text)
   AND (%(types)s::text[] IS NULL OR type = ANY (%(types)s::text[]))
   AND (%(subject)s::text IS NULL OR subject = %(subject)s::text)
   AND (%(start)s::timestamptz IS NULL OR time >= %(start)s::timestamptz)
   AND (%(end)s::timestamptz IS NULL OR time < %(end)s::timestamptz)
   AND (%(behind)s::bigint IS NULL
        OR (time, seq) < ((SELECT last.time FROM outbox AS last WHERE last.seq = %(behind)s::bigint),
                          %(behind)s::bigint))
 ORDER BY time DESC, seq DESC
 LIMIT %(limit)s::int;

-- name: one
SELECT txid::text::bigint, seq, id, type, tenant_id, subject, data, time
  FROM outbox
 WHERE id = %(id)s::text
   AND (%(tenant_id)s::text IS NULL OR tenant_id = %(tenant_id)s::text);
