UPDATE webhook_endpoints
   SET former_secrets = ARRAY[previous_secret], former_until = ARRAY[previous_until]
 WHERE previous_secret <> '' AND previous_until IS NOT NULL;
