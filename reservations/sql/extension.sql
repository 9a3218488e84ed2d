-- Extending a reservation (R33, R34).

-- name: take_hold
-- One extension at a time; one whose owner died is taken over.
INSERT INTO extend_holds (reservation_id, hold, taken_at)
VALUES (%(reservation_id)s, %(hold)s, compute_now())
ON CONFLICT (reservation_id) DO UPDATE
SET hold = excluded.hold, taken_at = excluded.taken_at
WHERE extend_holds.taken_at
    <= compute_now() - make_interval(secs => %(seconds)s::double precision);

-- name: drop_hold
-- Only its owner's: whoever took it over has staged another change.
DELETE FROM extend_holds
WHERE reservation_id = %(reservation_id)s AND hold = %(hold)s;

-- name: held
SELECT 1
FROM extend_holds
WHERE reservation_id = %(reservation_id)s
    AND taken_at > compute_now() - make_interval(secs => %(seconds)s::double precision);

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
