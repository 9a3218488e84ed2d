-- What metrics say of reservations that go on. Those that ended are counted as they end.

-- name: live
-- A state's oldest is how long ago the reservation was made that is in it.
SELECT state, count(*), max(compute_now() - created_at),
       count(*) FILTER (WHERE conditions @> '[{"type": "Degraded"}]')
  FROM reservations
 WHERE state IN ('draft', 'awaiting-confirmation', 'pending', 'placed', 'binding', 'active')
 GROUP BY state
 ORDER BY state;

-- name: late
-- Windows that began or ended and that no worker has got to.
SELECT coalesce(max(compute_now() - starts_at) FILTER (WHERE state = 'placed'), interval '0'),
       greatest(max(compute_now() - ends_at), interval '0')
  FROM reservations
 WHERE state IN ('placed', 'binding', 'active')
   AND least(starts_at, ends_at) < compute_now();
