-- The audit is only ever added to. Whoever owns the tables can take these triggers away; what then
-- changes, the seals tell.

CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed or deleted', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;

-- Removing old entries is the one thing that audit_forget may do, in its own transaction.
CREATE TRIGGER audit_entries_stay BEFORE DELETE ON audit_entries FOR EACH STATEMENT
    WHEN (current_setting('bettercompute.audit', true) IS DISTINCT FROM 'forgetting')
    EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_entries_are_as_written BEFORE UPDATE ON audit_entries FOR EACH STATEMENT
    EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_entries_are_not_emptied BEFORE TRUNCATE ON audit_entries FOR EACH STATEMENT
    EXECUTE FUNCTION audit_refuse();

CREATE TRIGGER audit_seals_stay BEFORE DELETE OR TRUNCATE ON audit_seals FOR EACH STATEMENT
    EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_seals_are_as_written BEFORE UPDATE ON audit_seals FOR EACH STATEMENT
    WHEN (current_setting('bettercompute.audit', true) IS DISTINCT FROM 'forgetting')
    EXECUTE FUNCTION audit_refuse();

-- Entries of the oldest seal, if that is so old; answers how many there were. The seal stays, and
-- says when: a chain with a link missing proves nothing.
CREATE FUNCTION audit_forget(seconds double precision) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    oldest audit_seals;
    removed bigint;
BEGIN
    SELECT * INTO oldest
      FROM audit_seals
     WHERE removed_at IS NULL
     ORDER BY number
     LIMIT 1;
    IF oldest IS NULL OR oldest.sealed_at > compute_now() - make_interval(secs => seconds) THEN
        RETURN NULL;
    END IF;
    PERFORM set_config('bettercompute.audit', 'forgetting', true);
    DELETE FROM audit_entries
     WHERE seq >= lower(oldest.members) AND seq < upper(oldest.members)
       AND oldest.members @> seq;
    GET DIAGNOSTICS removed = ROW_COUNT;
    UPDATE audit_seals SET removed_at = compute_now() WHERE number = oldest.number;
    PERFORM set_config('bettercompute.audit', '', true);
    RETURN removed;
END $$;
