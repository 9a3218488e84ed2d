-- Each former secret has its end, and they are few; what is deleted keeps none, and not its own.
ALTER TABLE webhook_endpoints
    ADD CONSTRAINT webhook_endpoint_former_secrets_end CHECK (
        cardinality(former_secrets) = cardinality(former_until)
        AND cardinality(former_secrets) <= 3
        AND array_position(former_secrets, NULL) IS NULL
        AND array_position(former_until, NULL) IS NULL
    ),
    ADD CONSTRAINT webhook_endpoint_deleted_keeps_no_secret CHECK (
        state <> 'deleted' OR (secret = '' AND cardinality(former_secrets) = 0)
    );
