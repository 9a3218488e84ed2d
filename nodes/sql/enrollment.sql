-- Enrolment (N4): a one-time, expiring token is traded for an identity.

-- name: create
INSERT INTO node_enrollments (id, node_id, token_hash, expires_at)
VALUES (
    %(id)s, %(node_id)s, %(token_hash)s,
    compute_now() + make_interval(secs => %(seconds)s::int)
)
RETURNING expires_at;

-- name: use
-- Guarded: of two that present the token, one enrols.
UPDATE node_enrollments
SET used_at = compute_now()
WHERE token_hash = %(token_hash)s AND used_at IS NULL AND expires_at > compute_now()
RETURNING node_id;

-- name: used_with
-- The answer to this very request may have been lost: the same key gets it again (C28).
SELECT node_enrollments.node_id
FROM node_enrollments
JOIN node_keys USING (node_id)
WHERE node_enrollments.token_hash = %(token_hash)s
    AND node_enrollments.used_at IS NOT NULL
    AND node_enrollments.expires_at > compute_now()
    AND node_keys.kid = %(kid)s
    AND node_keys.revoked_at IS NULL;

-- name: add_key
INSERT INTO node_keys (kid, node_id, public_key, certificate)
VALUES (%(kid)s, %(node_id)s, %(public_key)s, '')
ON CONFLICT (kid) DO NOTHING;

-- name: owner_of_key
SELECT node_id, revoked_at IS NULL
FROM node_keys
WHERE kid = %(kid)s;
