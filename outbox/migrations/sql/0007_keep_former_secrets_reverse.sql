-- There is room for one: the newest.
UPDATE webhook_endpoints
   SET previous_secret = former_secrets[1], previous_until = former_until[1]
 WHERE cardinality(former_secrets) > 0;
