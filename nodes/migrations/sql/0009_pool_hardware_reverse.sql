DROP TRIGGER nodes_move_as_hardware ON nodes;
DROP TRIGGER nodes_leave_as_hardware ON nodes;
DROP TRIGGER node_resources_change_hardware ON node_resources;
DROP TRIGGER node_resources_are_hardware ON node_resources;
DROP TRIGGER devices_change_hardware ON devices;
DROP TRIGGER devices_are_hardware ON devices;
DROP FUNCTION note_node_as_hardware();
DROP FUNCTION note_hardware_of_node();
DROP FUNCTION note_hardware(text);
