-- Entries of the audit. outbox/sql/events.sql writes them, too, together with events.

-- name: record
-- One act says one thing once, however many of its transactions say it.
INSERT INTO audit_entries
       (id, at, tenant_id, account_id, username, operator, role, via, token_id, token_name, address,
        user_agent, request_id, action, object_kind, object_id, outcome, code, policies, detail,
        key_id, mac)
SELECT e.id, e.at, e.tenant_id, e.account_id, e.username, e.operator, e.role, e.via, e.token_id,
       e.token_name, e.address, e.user_agent, e.request_id, e.action, e.object_kind, e.object_id,
       e.outcome, e.code, e.policies, e.detail, e.key_id, e.mac
  FROM jsonb_populate_recordset(NULL::audit_entries, %(entries)s::jsonb) AS e
    ON CONFLICT (id) DO NOTHING;

-- name: search
-- The newest first, behind a position; each condition only where it is asked for.
SELECT seq, id, at, tenant_id, account_id, username, operator, role, via, token_id, token_name,
       address, user_agent, request_id, action, object_kind, object_id, outcome, code, policies,
       detail
  FROM audit_entries
 WHERE (%(tenant_id)s::text IS NULL OR tenant_id = %(tenant_id)s::text)
   AND (%(account_id)s::text IS NULL OR account_id = %(account_id)s::text)
   AND (%(object_id)s::text IS NULL OR object_id = %(object_id)s::text)
   AND (%(action)s::text IS NULL OR action = %(action)s::text)
   AND (%(outcome)s::text IS NULL OR outcome = %(outcome)s::text)
   AND (%(start)s::timestamptz IS NULL OR at >= %(start)s::timestamptz)
   AND (%(end)s::timestamptz IS NULL OR at < %(end)s::timestamptz)
   AND (%(after_at)s::timestamptz IS NULL
        OR (at, seq) < (%(after_at)s::timestamptz, %(after_seq)s::bigint))
 ORDER BY at DESC, seq DESC
 LIMIT %(limit)s::int;
