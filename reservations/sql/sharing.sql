-- name: named
SELECT account_id FROM reservation_users WHERE reservation_id = %(id)s ORDER BY account_id;

-- name: add
-- From the accounts, so that one removed meanwhile is left out and nothing fails.
INSERT INTO reservation_users (reservation_id, account_id)
SELECT %(id)s, accounts.id
FROM accounts
WHERE accounts.id = ANY(%(account_ids)s::text[])
ORDER BY accounts.id
ON CONFLICT (reservation_id, account_id) DO NOTHING;

-- name: remove
DELETE FROM reservation_users
WHERE reservation_id = %(id)s AND account_id = ANY(%(account_ids)s::text[]);
