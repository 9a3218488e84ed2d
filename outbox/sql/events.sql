-- Events: what happened, written with the change it describes (C20).

-- name: publish
-- In the order given: the sequence follows it within a transaction. The entries of the audit, if
-- somebody did this, cost no statement of their own; audit/sql/entries.sql has the same.
WITH recorded AS (
    INSERT INTO audit_entries
           (id, at, tenant_id, account_id, username, operator, role, via, token_id, token_name,
            address, user_agent, request_id, action, object_kind, object_id, outcome, code,
            policies, detail, key_id, mac)
    SELECT e.id, e.at, e.tenant_id, e.account_id, e.username, e.operator, e.role, e.via,
           e.token_id, e.token_name, e.address, e.user_agent, e.request_id, e.action,
           e.object_kind, e.object_id, e.outcome, e.code, e.policies, e.detail, e.key_id, e.mac
      FROM jsonb_populate_recordset(NULL::audit_entries, %(entries)s::jsonb) AS e
        ON CONFLICT (id) DO NOTHING
)
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
