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
