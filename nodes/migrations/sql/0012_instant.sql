-- Business time at this very instant. compute_now() stands still during a transaction, so one that
-- waited for a lock is behind those who held it: what they ended at their now still runs at its own.
-- A simulated clock has no instants within a transaction.
CREATE FUNCTION compute_instant() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT CASE
        -- Only the real clock is the server's: check-sql-now: allow
        WHEN compute_now() = transaction_timestamp() THEN clock_timestamp()  -- check-sql-now: allow
        ELSE compute_now()
    END
$$;
