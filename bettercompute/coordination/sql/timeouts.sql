-- Timeouts of the role (C24).

-- name: unset
-- What a session of ours begins with and returns to, whatever it has set for itself; 0 is for ever.
SELECT name
  FROM pg_settings
 WHERE name = ANY (%(names)s::text[]) AND reset_val = '0'
 ORDER BY name;
