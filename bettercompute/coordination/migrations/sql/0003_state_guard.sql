-- C3, defence in depth: a state changes only as its table in bettercompute/states.py allows, and
-- never without its version. Each guarded table passes its transitions as the trigger's argument;
-- tests/architecture compares them with states.py.
CREATE FUNCTION refuse_illegal_transition() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT coalesce(TG_ARGV[0]::jsonb -> OLD.state ? NEW.state, false) THEN
        RAISE EXCEPTION '% % is % and cannot become %', TG_TABLE_NAME, OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_transition_legal';
    END IF;
    IF NEW.version <> OLD.version + 1 THEN
        RAISE EXCEPTION '% % changed its state without its version', TG_TABLE_NAME, OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_transition_versioned';
    END IF;
    RETURN NEW;
END
$$;
