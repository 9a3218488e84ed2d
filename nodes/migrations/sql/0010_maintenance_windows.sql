-- Half-open and finite, as bookings are: an empty window keeps nobody out, an endless one everybody.
ALTER TABLE maintenance_windows
    ADD CONSTRAINT maintenance_not_empty CHECK (NOT isempty(during)),
    ADD CONSTRAINT maintenance_half_open CHECK (
        lower_inc(during) AND NOT upper_inc(during)
        AND isfinite(lower(during)) AND isfinite(upper(during))
        AND NOT lower_inf(during) AND NOT upper_inf(during)
    );

-- A planner's read skips what is over or cancelled.
CREATE INDEX maintenance_standing ON maintenance_windows (pool_id, upper(during))
    WHERE cancelled_at IS NULL;
