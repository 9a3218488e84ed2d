-- C3, defence in depth: see refuse_illegal_transition().
CREATE TRIGGER reservation_series_state_guard BEFORE UPDATE OF state ON reservation_series
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
EXECUTE FUNCTION refuse_illegal_transition(
    '{"active": ["cancelled", "ended"],
     "ended": [],
     "cancelled": []}'
);
