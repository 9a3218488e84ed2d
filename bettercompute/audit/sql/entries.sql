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
