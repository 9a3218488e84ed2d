-- Outages of the API (C38): nobody can renew a lease meanwhile, so no lease runs on.

-- name: beat
-- A gap of over 15 s between the beats of all web processes together is an outage, over with this
-- beat. The row lock lets one of several processes find it. `found` is read first, since the gap is
-- gone once the beat is written.
WITH before AS (
    SELECT beat_at FROM api_watch WHERE id = 1 FOR UPDATE
),
found AS (
    INSERT INTO api_outages (began_at, ended_at)
    SELECT before.beat_at, compute_now()
    FROM before
    WHERE before.beat_at < compute_now() - make_interval(secs => %(gap_seconds)s::int)
    RETURNING id
)
INSERT INTO api_watch (id, beat_at)
SELECT 1, compute_now()
FROM (SELECT count(*) FROM found) AS after_found
ON CONFLICT (id) DO UPDATE
SET beat_at = greatest(api_watch.beat_at, excluded.beat_at);

-- name: judging
-- How far leases may be judged: up to the last beat of the API, and not while the length of an
-- outage is still to be added to them. No row where the API never beat.
SELECT
    api_watch.beat_at,
    EXISTS (SELECT FROM api_outages WHERE api_outages.applied_at IS NULL)
FROM api_watch
WHERE api_watch.id = 1;

-- name: unapplied
SELECT EXISTS (SELECT FROM api_outages WHERE applied_at IS NULL);

-- name: apply_oldest
-- C38: every lease that ran when the outage began, or was given during it, gets that time back.
-- Once per outage, however many do this: whoever waits for its row finds it applied. A lease that
-- had lapsed before stays lapsed, and one renewed after its end has lost nothing.
WITH outage AS (
    UPDATE api_outages
    SET applied_at = compute_now()
    WHERE applied_at IS NULL
        AND id = (
            SELECT id FROM api_outages WHERE applied_at IS NULL ORDER BY began_at, id LIMIT 1
        )
    RETURNING began_at, ended_at
),
running AS (
    SELECT reservations.id, outage.began_at, outage.ended_at
    FROM reservations
    CROSS JOIN outage
    WHERE reservations.state IN ('placed', 'binding', 'active')
        AND reservations.lease_until > outage.began_at
        AND reservations.lease_until - make_interval(secs => reservations.lease_seconds)
            < outage.ended_at
    ORDER BY reservations.id
    FOR NO KEY UPDATE OF reservations
)
UPDATE reservations
SET lease_until = reservations.lease_until + (
        running.ended_at - greatest(
            running.began_at,
            reservations.lease_until - make_interval(secs => reservations.lease_seconds)
        )
    ),
    version = reservations.version + 1
FROM running
WHERE reservations.id = running.id;

-- name: forget
-- Outages applied long ago.
DELETE FROM api_outages
WHERE applied_at < compute_now() - make_interval(secs => %(seconds)s::int);
