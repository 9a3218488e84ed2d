-- Writing down what is to be sent (A6).

-- name: enabled
SELECT count(*)
  FROM webhook_endpoints
 WHERE state = 'enabled';

-- name: enqueue
-- One delivery for each event and each endpoint that wants it. An endpoint is held, so that it
-- cannot be dropped before the delivery refers to it. The id is made of both, so that whoever writes
-- it, however often, writes one row; it sorts as the event's does.
WITH event AS (
    SELECT *
      FROM unnest(%(ids)s::text[], %(types)s::text[], %(tenants)s::text[], %(subjects)s::text[],
                  %(times)s::timestamptz[], %(bodies)s::text[], %(origins)s::text[])
           AS event (id, type, tenant_id, subject, time, body, origin)
), wanted AS (
    SELECT e.id AS endpoint_id, event.*
      FROM webhook_endpoints AS e
      JOIN event
        ON (e.tenant_id IS NULL OR e.tenant_id = event.tenant_id)
       AND e.enabled_at <= event.time
       AND (e.event_types = '{}'
            OR event.type = ANY (e.event_types)
            OR split_part(event.type, '.', 1) || '.*' = ANY (e.event_types))
       AND e.subject IN ('', event.subject, split_part(event.subject, '/', 1) || '/*')
     WHERE e.state = 'enabled' AND webhook_owner_stays(e.owner_id, e.tenant_id)
       FOR KEY SHARE OF e
)
INSERT INTO webhook_deliveries
       (id, endpoint_id, event_id, event_type, subject, body, event_time, origin, test, status,
        attempts, attempts_before)
SELECT 'whd_' || split_part(id, '_', 2) || right(endpoint_id, 10), endpoint_id, id, type, subject,
       body, time, origin, false, 'pending', 0, 0
  FROM wanted
    ON CONFLICT (endpoint_id, event_id) DO NOTHING;
