-- Which hardware a pool is made of, as a number that is another after every transaction that changed
-- it. Whoever keeps something that follows from the hardware alone keeps it for that number. At
-- commit, so that a transaction holds this row, which all changes of a pool share, last and shortly.
CREATE FUNCTION note_hardware(changed_pool_id text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO pool_hardware (pool_id, generation)
    VALUES (changed_pool_id, pg_current_xact_id()::text::bigint)
    ON CONFLICT (pool_id) DO UPDATE SET generation = excluded.generation
    WHERE pool_hardware.generation <> excluded.generation
$$;

-- Of a node's devices and resources.
CREATE FUNCTION note_hardware_of_node() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM note_hardware(pool_id) FROM nodes WHERE id = OLD.node_id;
    END IF;
    IF TG_OP = 'INSERT' OR TG_OP = 'UPDATE' AND NEW.node_id <> OLD.node_id THEN
        PERFORM note_hardware(pool_id) FROM nodes WHERE id = NEW.node_id;
    END IF;
    RETURN NULL;
END
$$;

-- Of a node as it leaves, or goes from one pool to another. As it comes, it has no devices.
CREATE FUNCTION note_node_as_hardware() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM note_hardware(OLD.pool_id);
    IF TG_OP = 'UPDATE' AND NEW.pool_id <> OLD.pool_id THEN
        PERFORM note_hardware(NEW.pool_id);
    END IF;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER devices_are_hardware AFTER INSERT OR DELETE ON devices
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_hardware_of_node();

CREATE CONSTRAINT TRIGGER devices_change_hardware AFTER UPDATE ON devices
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (
    (OLD.node_id, OLD.kind, OLD.bookable_mode, OLD.model, OLD.profile, OLD.memory_mib)
    IS DISTINCT FROM
    (NEW.node_id, NEW.kind, NEW.bookable_mode, NEW.model, NEW.profile, NEW.memory_mib)
)
EXECUTE FUNCTION note_hardware_of_node();

CREATE CONSTRAINT TRIGGER node_resources_are_hardware AFTER INSERT OR DELETE ON node_resources
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_hardware_of_node();

-- Not of `allocated`, which every booking writes.
CREATE CONSTRAINT TRIGGER node_resources_change_hardware
AFTER UPDATE OF node_id, resource, allocatable, ratio ON node_resources
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (
    (OLD.node_id, OLD.resource, OLD.allocatable, OLD.ratio)
    IS DISTINCT FROM (NEW.node_id, NEW.resource, NEW.allocatable, NEW.ratio)
)
EXECUTE FUNCTION note_hardware_of_node();

CREATE CONSTRAINT TRIGGER nodes_leave_as_hardware AFTER DELETE ON nodes
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_node_as_hardware();

CREATE CONSTRAINT TRIGGER nodes_move_as_hardware AFTER UPDATE OF pool_id, state ON nodes
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (
    OLD.pool_id <> NEW.pool_id OR (OLD.state = 'retired') <> (NEW.state = 'retired')
)
EXECUTE FUNCTION note_node_as_hardware();

-- What is there already.
INSERT INTO pool_hardware (pool_id, generation)
SELECT DISTINCT pool_id, pg_current_xact_id()::text::bigint FROM nodes ORDER BY pool_id;
