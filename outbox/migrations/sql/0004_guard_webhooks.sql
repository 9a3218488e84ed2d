-- C3: an endpoint's state changes as states.py allows; deleted is for good.
CREATE TRIGGER webhook_endpoints_state_guard BEFORE UPDATE OF state ON webhook_endpoints
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
EXECUTE FUNCTION refuse_illegal_transition('{
    "deleted": [],
    "disabled": ["deleted", "enabled"],
    "enabled": ["deleted", "disabled"]
}');

-- Whether an endpoint's owner may still be told what its events say: a member of the tenant, or for
-- the platform's endpoints (of no tenant) an operator. An operator may own one of any tenant.
CREATE FUNCTION webhook_owner_stays(owner text, tenant text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT
          FROM accounts AS a
         WHERE a.id = owner AND a.is_active
           AND (a.is_staff OR a.is_superuser
                OR EXISTS (SELECT FROM memberships AS m
                            WHERE m.account_id = a.id AND m.tenant_id = tenant)))
$$;
