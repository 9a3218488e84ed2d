-- What is known of the occurrences of a series: reservations that carry it.

-- name: still_has
-- The series, if it still has an occurrence at that time. No lock: whoever cancels it locks each
-- occurrence next, and withdraws what was booked meanwhile.
SELECT id
FROM reservation_series
WHERE id = %(series_id)s
    AND state = 'active'
    AND (cut_at IS NULL OR cut_at > %(occurrence_at)s::timestamptz);

-- name: unbooked_due
-- Occurrences ahead that are to be tried now, the nearest first: each that was never tried, or
-- whose time to be tried again has come.
SELECT id
FROM reservations
WHERE series_id = %(series_id)s
    AND state = 'draft'
    AND occurrence_at > compute_now()
    AND (retry_at IS NULL OR retry_at <= compute_now())
ORDER BY occurrence_at
LIMIT %(limit)s::int;

-- name: unbooked_begun
-- Occurrences that would have begun by now, and were never booked.
SELECT id
FROM reservations
WHERE series_id = %(series_id)s AND state = 'draft' AND occurrence_at <= compute_now()
ORDER BY id;

-- name: horizon
-- How far its occurrences have rows, and when one of them asks for a look.
SELECT
    count(*) FILTER (WHERE occurrence_at > compute_now()) AS ahead,
    min(occurrence_at) FILTER (WHERE occurrence_at > compute_now()) AS first_ahead,
    max(occurrence_at) AS last_at,
    min(coalesce(retry_at, compute_now())) FILTER (WHERE state = 'draft') AS retry_at,
    min(occurrence_at) FILTER (WHERE state = 'draft') AS unbooked_at
FROM reservations
WHERE series_id = %(series_id)s;

-- name: behind_cut
-- Occurrences that are not to be: those from the cut on that are over in no way yet.
SELECT reservations.id
FROM reservations
JOIN reservation_series ON reservation_series.id = reservations.series_id
WHERE reservations.series_id = %(series_id)s
    AND reservations.state IN ('draft', 'pending', 'placed')
    AND reservations.occurrence_at >= reservation_series.cut_at
ORDER BY reservations.id;

-- name: running
SELECT id
FROM reservations
WHERE series_id = %(series_id)s
    AND state IN ('placed', 'binding', 'active')
    AND starts_at <= compute_now()
ORDER BY id;

-- name: live_keys
-- Every series that has occurrences to book, or to withdraw: for the resync (C27).
SELECT id FROM reservation_series WHERE state = 'active'
UNION
SELECT reservations.series_id
FROM reservations
JOIN reservation_series ON reservation_series.id = reservations.series_id
WHERE reservations.state IN ('draft', 'pending', 'placed')
    AND reservations.occurrence_at >= reservation_series.cut_at
ORDER BY id;
