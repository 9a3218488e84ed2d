-- What extended a reservation (R33).

-- name: made
-- What this key of this person has done to this reservation already.
SELECT request_hash
FROM extensions
WHERE reservation_id = %(reservation_id)s
    AND account_id = %(account_id)s
    AND idempotency_key = %(idempotency_key)s;

-- name: remember
INSERT INTO extensions (
    reservation_id, account_id, idempotency_key, request_hash, ends_before, ends_after, made_at
)
VALUES (
    %(reservation_id)s, %(account_id)s, %(idempotency_key)s, %(request_hash)s,
    %(ends_before)s::timestamptz, %(ends_after)s::timestamptz, compute_now()
);
