-- A comparison of rows is kept as ORs within ORs, which a dump writes down and a restore reads flat:
-- the trigger is the same, but no longer reads as migrated. Said flat, it reads the same after both.
DROP TRIGGER devices_change_hardware ON devices;

CREATE CONSTRAINT TRIGGER devices_change_hardware AFTER UPDATE ON devices
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (
    OLD.node_id IS DISTINCT FROM NEW.node_id
    OR OLD.kind IS DISTINCT FROM NEW.kind
    OR OLD.bookable_mode IS DISTINCT FROM NEW.bookable_mode
    OR OLD.model IS DISTINCT FROM NEW.model
    OR OLD.profile IS DISTINCT FROM NEW.profile
    OR OLD.memory_mib IS DISTINCT FROM NEW.memory_mib
)
EXECUTE FUNCTION note_hardware_of_node();

DROP TRIGGER node_resources_change_hardware ON node_resources;

-- Not of `allocated`, which every booking writes.
CREATE CONSTRAINT TRIGGER node_resources_change_hardware
AFTER UPDATE OF node_id, resource, allocatable, ratio ON node_resources
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (
    OLD.node_id IS DISTINCT FROM NEW.node_id
    OR OLD.resource IS DISTINCT FROM NEW.resource
    OR OLD.allocatable IS DISTINCT FROM NEW.allocatable
    OR OLD.ratio IS DISTINCT FROM NEW.ratio
)
EXECUTE FUNCTION note_hardware_of_node();
