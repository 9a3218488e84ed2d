-- The hold of a reservation's extension under way (R34).

-- name: take
-- One extension at a time; one whose owner died is taken over.
INSERT INTO extend_holds (reservation_id, hold, taken_at)
VALUES (%(reservation_id)s, %(hold)s, compute_now())
ON CONFLICT (reservation_id) DO UPDATE
SET hold = excluded.hold, taken_at = excluded.taken_at
WHERE extend_holds.taken_at
    <= compute_now() - make_interval(secs => %(seconds)s::double precision);

-- name: drop
-- Only its owner's: whoever took it over has staged another change.
DELETE FROM extend_holds
WHERE reservation_id = %(reservation_id)s AND hold = %(hold)s;
