-- Sending deliveries: who takes which, and what came of it (A6).

-- name: claim
-- What is due in one lane: endpoint after endpoint, each by its oldest delivery first, and of each
-- the first before the second of any. At most so many of an endpoint are out at once, so one with
-- thousands waiting takes no slot from another. Endpoints that another worker is claiming for at
-- this moment are skipped; what it claimed just before is told by the guard of the UPDATE alone.
WITH ready AS MATERIALIZED (
    SELECT e.id
      FROM webhook_endpoints AS e
     CROSS JOIN LATERAL (
        SELECT d.next_at, webhook_owner_stays(e.owner_id, e.tenant_id) AS owner_stays
          FROM webhook_deliveries AS d
         WHERE d.endpoint_id = e.id AND d.status = 'pending' AND d.next_at <= compute_now()
           AND (d.claimed_until IS NULL OR d.claimed_until <= compute_now())
         ORDER BY d.next_at
         LIMIT 1
     ) AS first
     WHERE e.state = 'enabled' AND e.lane = %(lane)s::text
       AND (e.paused_until IS NULL OR e.paused_until <= compute_now())
       AND first.owner_stays
     ORDER BY first.next_at
     LIMIT %(limit)s::int
       FOR NO KEY UPDATE OF e SKIP LOCKED
), due AS (
    SELECT oldest.id
      FROM ready
     CROSS JOIN LATERAL (
        SELECT waiting.id, waiting.next_at,
               row_number() OVER (ORDER BY waiting.next_at, waiting.id)
          FROM (SELECT d.id, d.next_at
                  FROM webhook_deliveries AS d
                 WHERE d.endpoint_id = ready.id AND d.status = 'pending'
                   AND d.next_at <= compute_now()
                   AND (d.claimed_until IS NULL OR d.claimed_until <= compute_now())
                 ORDER BY d.next_at, d.id
                 LIMIT greatest(0, %(each)s::int - (
                    SELECT count(*)
                      FROM webhook_deliveries AS taken
                     WHERE taken.endpoint_id = ready.id AND taken.claimed_until > compute_now()
                 ))) AS waiting
     ) AS oldest (id, next_at, place)
     ORDER BY oldest.place, oldest.next_at
     LIMIT %(limit)s::int
), taken AS (
    UPDATE webhook_deliveries AS d
       SET attempts = d.attempts + 1,
           claimed_until = compute_now() + make_interval(secs => %(seconds)s::double precision)
      FROM due, webhook_endpoints AS e
     WHERE d.id = due.id AND e.id = d.endpoint_id AND d.status = 'pending'
       AND (d.claimed_until IS NULL OR d.claimed_until <= compute_now())
    RETURNING d.id, d.attempts, d.attempts - d.attempts_before AS tries, d.event_id, d.body,
              d.test, d.origin, old.claimed_until AS lapsed_at, e.id AS endpoint_id, e.url, e.lane,
              e.failures, e.secret, e.former_secrets, e.former_until
), lost AS (
    -- Nobody said what came of the attempt before: its worker died, or may yet say so.
    INSERT INTO webhook_attempts (delivery_id, number, started_at, request_headers, response_head,
                                  latency_ms, error, retry_at)
    SELECT id, attempts - 1, lapsed_at - make_interval(secs => %(seconds)s::double precision),
           '{}', '', 0, %(lost)s::text, compute_now()
      FROM taken
     WHERE lapsed_at IS NOT NULL
        ON CONFLICT (delivery_id, number) DO NOTHING
)
SELECT id, attempts, tries, event_id, body, test, origin, endpoint_id, url, lane, failures, secret,
       former_secrets, former_until
  FROM taken;

-- name: make_test
-- One that a person asked for, taken up by who makes it.
INSERT INTO webhook_deliveries
       (id, endpoint_id, event_id, event_type, subject, body, event_time, origin, test, status,
        attempts, attempts_before, claimed_until)
SELECT %(id)s::text, e.id, %(event_id)s::text, %(type)s::text, %(subject)s::text, %(body)s::text,
       compute_now(), %(origin)s::text, true, 'pending', 1, 0,
       compute_now() + make_interval(secs => %(seconds)s::double precision)
  FROM webhook_endpoints AS e
 WHERE e.id = %(endpoint_id)s::text AND e.state <> 'deleted'
   AND NOT EXISTS (SELECT FROM webhook_deliveries AS d
                    WHERE d.endpoint_id = e.id AND d.test AND d.claimed_until > compute_now())
   FOR KEY SHARE OF e
RETURNING id;

-- name: claimed
-- One that was just taken up, as a claim has it.
SELECT d.id, d.attempts, d.attempts - d.attempts_before, d.event_id, d.body, d.test, d.origin,
       e.id, e.url, e.lane, e.failures, e.secret, e.former_secrets, e.former_until
  FROM webhook_deliveries AS d
  JOIN webhook_endpoints AS e ON e.id = d.endpoint_id
 WHERE d.id = %(id)s::text;

-- name: health
-- What a batch of attempts says of the endpoints that were called, unless they have another address
-- by now. Written where it says anything new, and that it is well once a minute: an endpoint that
-- takes everything costs no write.
WITH said AS (
    SELECT *, CASE WHEN NOT succeeded THEN 'failing' WHEN slow THEN 'slow' ELSE 'quick' END AS lane
      FROM unnest(%(ids)s::text[], %(urls)s::text[], %(succeeded)s::boolean[], %(failed)s::int[],
                  %(slow)s::boolean[], %(pauses)s::interval[], %(gone)s::boolean[])
           AS said (id, url, succeeded, failed, slow, pause, gone)
), worth_it AS (
    SELECT said.*
      FROM webhook_endpoints AS e
      JOIN said ON said.id = e.id AND said.url = e.url
     WHERE NOT said.succeeded OR said.pause IS NOT NULL OR e.failures > 0
        OR e.failing_since IS NOT NULL OR e.lane <> said.lane
        OR coalesce(e.last_success_at <= compute_now() - interval '1 minute', true)
     ORDER BY e.id
       FOR NO KEY UPDATE OF e
)
UPDATE webhook_endpoints AS e
   SET lane = said.lane,
       failures = CASE WHEN said.succeeded THEN 0 ELSE e.failures + said.failed END,
       failing_since = CASE WHEN NOT said.succeeded
                            THEN coalesce(e.failing_since, compute_now()) END,
       paused_until = compute_now() + said.pause,
       last_success_at = CASE WHEN said.succeeded THEN compute_now() ELSE e.last_success_at END
  FROM worth_it AS said
 WHERE e.id = said.id
RETURNING e.id, e.version, e.tenant_id, e.state, said.gone,
          coalesce(e.failing_since <= compute_now() - %(disable_after)s::interval, false);

-- name: finish
-- Only where it is still this attempt that is under way: a worker that was given up for dead must
-- not undo what another found out since. What an address did not take that is not the endpoint's any
-- more goes to the one it has now.
UPDATE webhook_deliveries AS d
   SET status = result.status,
       next_at = CASE WHEN result.wait IS NULL THEN d.next_at ELSE compute_now() + result.wait END,
       attempts_before = CASE WHEN result.moved THEN d.attempts ELSE d.attempts_before END,
       finished_at = CASE WHEN result.status = 'pending' THEN NULL ELSE compute_now() END,
       claimed_until = NULL
  FROM (SELECT said.id, said.number, of.moved,
               CASE WHEN of.moved THEN 'pending' ELSE said.status END AS status,
               CASE WHEN of.moved THEN interval '0' ELSE said.wait END AS wait
          FROM unnest(%(ids)s::text[], %(numbers)s::int[], %(urls)s::text[], %(statuses)s::text[],
                      %(waits)s::interval[])
               AS said (id, number, url, status, wait)
          JOIN webhook_deliveries AS sent ON sent.id = said.id
          JOIN webhook_endpoints AS e ON e.id = sent.endpoint_id
         CROSS JOIN LATERAL (SELECT said.status <> 'delivered' AND NOT sent.test
                                AND said.url <> e.url) AS of (moved)
       ) AS result
 WHERE d.id = result.id AND d.attempts = result.number AND d.status = 'pending';

-- name: remember
-- What came of each attempt, also of one that came too late to count; it is known better than what
-- was written down when its claim had lapsed.
INSERT INTO webhook_attempts
       (delivery_id, number, started_at, request_headers, response_status, response_head,
        latency_ms, error, retry_at)
SELECT d.id, said.number,
       compute_now() - make_interval(secs => said.latency_ms / 1000.0),
       said.headers::jsonb, said.response_status, said.head, said.latency_ms, said.error,
       CASE WHEN d.status = 'pending' AND d.attempts = said.number THEN d.next_at END
  FROM unnest(%(ids)s::text[], %(numbers)s::int[], %(headers)s::text[], %(responses)s::int[],
              %(heads)s::text[], %(latencies)s::int[], %(errors)s::text[])
       AS said (id, number, headers, response_status, head, latency_ms, error)
  JOIN webhook_deliveries AS d ON d.id = said.id
    ON CONFLICT (delivery_id, number) DO UPDATE
   SET started_at = excluded.started_at, request_headers = excluded.request_headers,
       response_status = excluded.response_status, response_head = excluded.response_head,
       latency_ms = excluded.latency_ms, error = excluded.error, retry_at = excluded.retry_at;

-- name: break_off
-- Under way when its worker had to stop: the next worker sends it at once. It may have arrived.
WITH given_back AS (
    UPDATE webhook_deliveries AS d
       SET claimed_until = NULL
      FROM unnest(%(ids)s::text[], %(numbers)s::int[], %(latencies)s::int[])
           AS claim (id, number, latency_ms)
     WHERE d.id = claim.id AND d.attempts = claim.number AND d.status = 'pending'
    RETURNING d.id, d.attempts, claim.latency_ms
)
INSERT INTO webhook_attempts (delivery_id, number, started_at, request_headers, response_head,
                              latency_ms, error, retry_at)
SELECT id, attempts, compute_now() - make_interval(secs => latency_ms / 1000.0), '{}', '',
       latency_ms, %(said)s::text, compute_now()
  FROM given_back
    ON CONFLICT (delivery_id, number) DO NOTHING;

-- name: again
-- Sent again by request, with a schedule of its own; what is on its way stays so.
UPDATE webhook_deliveries
   SET status = 'pending', next_at = compute_now(), finished_at = NULL, attempts_before = attempts
 WHERE id = %(id)s::text AND endpoint_id = %(endpoint_id)s::text
   AND (claimed_until IS NULL OR claimed_until <= compute_now());

-- name: again_range
-- The oldest first, as they come in, behind one of them. What failed and only waits for its next try
-- need not wait.
WITH chosen AS (
    SELECT id
      FROM webhook_deliveries
     WHERE endpoint_id = %(endpoint_id)s::text AND NOT test
       AND event_time >= %(since)s::timestamptz AND event_time < %(until)s::timestamptz
       AND (%(behind)s::text IS NULL OR id > %(behind)s::text)
       AND (status = 'failed' OR (%(all)s::boolean AND status = 'delivered')
            OR (status = 'pending' AND next_at > compute_now() AND attempts > attempts_before
                AND (claimed_until IS NULL OR claimed_until <= compute_now())))
     ORDER BY id
     LIMIT %(limit)s::int
       FOR NO KEY UPDATE
), sent AS (
    UPDATE webhook_deliveries AS d
       SET status = 'pending', next_at = compute_now(), finished_at = NULL,
           attempts_before = d.attempts
      FROM chosen
     WHERE d.id = chosen.id
)
SELECT count(*), max(id)
  FROM chosen;

-- name: overdue
-- How much waits, and how long it has been due, of endpoints that can be called now.
SELECT count(*), coalesce(max(compute_now() - greatest(d.next_at, e.paused_until)), interval '0')
  FROM webhook_deliveries AS d
  JOIN webhook_endpoints AS e ON e.id = d.endpoint_id
 WHERE d.status = 'pending' AND d.next_at <= compute_now() AND e.state = 'enabled'
   AND e.lane NOT IN ('slow', 'failing')
   AND (e.paused_until IS NULL OR e.paused_until <= compute_now());

-- name: expire
-- Old ones that are done, or that nobody will send: their endpoint is deleted or disabled.
WITH old AS (
    SELECT d.id
      FROM webhook_deliveries AS d
      JOIN webhook_endpoints AS e ON e.id = d.endpoint_id
     WHERE d.created_at <= compute_now() - make_interval(secs => %(seconds)s::double precision)
       AND coalesce(d.finished_at, d.created_at)
           <= compute_now() - make_interval(secs => %(seconds)s::double precision)
       AND (d.status <> 'pending' OR e.state <> 'enabled')
     ORDER BY d.created_at
     LIMIT %(limit)s::int
), tries AS (
    DELETE FROM webhook_attempts USING old WHERE webhook_attempts.delivery_id = old.id
)
DELETE FROM webhook_deliveries USING old WHERE webhook_deliveries.id = old.id;

-- name: expire_deleted
-- All of an endpoint that was deleted.
WITH old AS (
    SELECT d.id
      FROM webhook_deliveries AS d
      JOIN webhook_endpoints AS e ON e.id = d.endpoint_id
     WHERE e.state = 'deleted'
     LIMIT %(limit)s::int
), tries AS (
    DELETE FROM webhook_attempts USING old WHERE webhook_attempts.delivery_id = old.id
)
DELETE FROM webhook_deliveries USING old WHERE webhook_deliveries.id = old.id;

-- name: failing
-- Endpoints that have taken nothing for long, the longest first.
SELECT e.id, e.tenant_id, compute_now() - e.failing_since
  FROM webhook_endpoints AS e
 WHERE e.state = 'enabled' AND e.failing_since <= compute_now() - %(age)s::interval
 ORDER BY e.failing_since
 LIMIT %(limit)s::int;
