-- C9: at most one holder of a device at any instant, whatever any code does. Ranges are half-open
-- with finite bounds; an empty range or a NULL device would slip past an exclusion constraint.
ALTER TABLE device_bookings
    ADD CONSTRAINT booking_not_empty CHECK (NOT isempty(during)),
    ADD CONSTRAINT booking_half_open CHECK (
        lower_inc(during) AND NOT upper_inc(during)
        AND isfinite(lower(during)) AND isfinite(upper(during))
        AND NOT lower_inf(during) AND NOT upper_inf(during)
    ),
    ADD CONSTRAINT booking_no_overlap EXCLUDE USING gist (device_id WITH =, during WITH &&);

ALTER TABLE resource_bookings
    ADD CONSTRAINT resource_booking_not_empty CHECK (NOT isempty(during)),
    ADD CONSTRAINT resource_booking_half_open CHECK (
        lower_inc(during) AND NOT upper_inc(during)
        AND isfinite(lower(during)) AND isfinite(upper(during))
        AND NOT lower_inf(during) AND NOT upper_inf(during)
    );
CREATE INDEX resource_booking_over_time ON resource_bookings
    USING gist (node_id, resource, during);

-- C10: the atom rule, kept by keys. An atom is bookable only in the mode its GPU's own row is in,
-- so a GPU and a part of it are never bookable at the same time.
ALTER TABLE devices
    ADD CONSTRAINT device_mode_key UNIQUE (id, mode),
    ADD CONSTRAINT device_bookable_in_gpus_mode
        FOREIGN KEY (gpu_id, bookable_mode) REFERENCES devices (id, mode),
    ADD CONSTRAINT device_gpu_is_itself CHECK ((id = gpu_id) = (kind = 'gpu')),
    ADD CONSTRAINT device_mode_of_gpus_only CHECK ((kind = 'gpu') = (mode IS NOT NULL)),
    ADD CONSTRAINT device_bookable_as_its_kind CHECK (
        bookable_mode IS NULL
        OR bookable_mode = CASE kind WHEN 'gpu' THEN 'whole' WHEN 'mig' THEN 'mig' ELSE 'slots' END
    ),
    ADD CONSTRAINT device_milli_positive CHECK (milli BETWEEN 1 AND 1000);

CREATE TRIGGER nodes_state_guard BEFORE UPDATE OF state ON nodes
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
EXECUTE FUNCTION refuse_illegal_transition(
    '{"ready": ["retired", "unreachable"],
     "unreachable": ["ready", "retired"],
     "retired": []}'
);
