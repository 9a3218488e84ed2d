-- How far we can tell of nodes (C38). node_hearing() of the migrations says the rest.

-- name: beat
-- C38: a gap of over 15 s between the beats of a gateway is an outage of ours, over with this one.
-- Run in the transaction that flushes what the gateway knew so long ago. Time never runs back here.
INSERT INTO gateway_watch (gateway_id, beat_at, up_since)
SELECT %(gateway_id)s, known.at, known.at
FROM (
    SELECT compute_now() - make_interval(secs => %(age_seconds)s::double precision) AS at
) AS known
ON CONFLICT (gateway_id) DO UPDATE
SET beat_at = greatest(gateway_watch.beat_at, excluded.beat_at),
    up_since = CASE
        WHEN excluded.beat_at > gateway_watch.beat_at + make_interval(secs => %(gap_seconds)s::int)
        THEN excluded.beat_at
        ELSE gateway_watch.up_since
    END;

-- name: forget
-- Gateways long gone; the last that beat stays, however long ago: it says when the outage began.
DELETE FROM gateway_watch
WHERE beat_at < (SELECT max(beat_at) FROM gateway_watch) - make_interval(secs => %(seconds)s::int);

-- name: of
-- For all of these nodes together. No gateway ever beat: nothing.
SELECT max(heard_since), min(heard_until)
FROM node_hearing()
WHERE node_id = ANY(%(node_ids)s::text[])
HAVING count(heard_until) > 0;
