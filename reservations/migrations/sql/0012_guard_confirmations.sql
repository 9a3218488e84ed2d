-- C3, defence in depth: see refuse_illegal_transition().
CREATE TRIGGER confirmations_state_guard BEFORE UPDATE OF state ON confirmations
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
EXECUTE FUNCTION refuse_illegal_transition(
    '{"open": ["approved", "denied", "expired"],
     "approved": ["denied", "expired", "used"],
     "used": [],
     "denied": [],
     "expired": []}'
);
