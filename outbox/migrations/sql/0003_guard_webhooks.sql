-- C3: an endpoint's state changes as states.py allows; deleted is for good.
CREATE TRIGGER webhook_endpoints_state_guard BEFORE UPDATE OF state ON webhook_endpoints
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
EXECUTE FUNCTION refuse_illegal_transition('{
    "deleted": [],
    "disabled": ["deleted", "enabled"],
    "enabled": ["deleted", "disabled"]
}');
