-- C4: the one clock. Every time comparison in SQL reads compute_now().
CREATE EXTENSION IF NOT EXISTS btree_gist;

-- C5: tests and the simulation point compute_now() here.
CREATE TABLE compute_sim_clock (
    id int PRIMARY KEY CHECK (id = 1),
    ts timestamptz NOT NULL
);

CREATE FUNCTION compute_now() RETURNS timestamptz
LANGUAGE sql STABLE AS $$ SELECT now() $$;  -- check-sql-now: allow
