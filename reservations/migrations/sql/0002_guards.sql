-- C3, defence in depth: see refuse_illegal_transition().
CREATE TRIGGER reservations_state_guard BEFORE UPDATE OF state ON reservations
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
EXECUTE FUNCTION refuse_illegal_transition(
    '{"draft": ["awaiting-confirmation", "denied", "expired", "pending", "placed"],
     "awaiting-confirmation": ["denied", "expired", "pending", "placed"],
     "pending": ["cancelled", "expired", "failed", "placed"],
     "placed": ["active", "binding", "cancelled", "failed", "pending", "released"],
     "binding": ["active", "failed", "pending", "released"],
     "active": ["released"],
     "denied": [],
     "released": [],
     "failed": [],
     "cancelled": [],
     "expired": []}'
);

CREATE TRIGGER allocations_state_guard BEFORE UPDATE OF state ON allocations
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
EXECUTE FUNCTION refuse_illegal_transition(
    '{"placed": ["binding", "bound", "failed", "released"],
     "binding": ["bound", "failed", "released", "releasing"],
     "bound": ["binding", "released", "releasing"],
     "releasing": ["released"],
     "released": [],
     "failed": []}'
);
