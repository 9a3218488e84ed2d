-- What metrics say of webhooks. What is done is counted as it is done.

-- name: endpoints
SELECT state, lane, count(*)
  FROM webhook_endpoints
 WHERE state <> 'deleted'
 GROUP BY state, lane
 ORDER BY state, lane;

-- name: pending
-- Deliveries that wait: those that are due now, those whose next try comes later, and those whose
-- endpoint is disabled or paused.
SELECT CASE WHEN e.state <> 'enabled' OR e.paused_until > compute_now() THEN 'held'
            WHEN d.next_at > compute_now() THEN 'later'
            ELSE 'due' END AS wait,
       count(*)
  FROM webhook_deliveries AS d
  JOIN webhook_endpoints AS e ON e.id = d.endpoint_id
 WHERE d.status = 'pending'
 GROUP BY 1
 ORDER BY 1;
