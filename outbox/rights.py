"""Who may read events: members of a tenant its own, operators those of the whole platform.

The right is one for all events of the tenant: whoever may read them sees what happens to every
reservation, node and pool of the tenant, though not more than each event says.
"""

from bettercompute.iam import access, decisions
from bettercompute.iam.callers import Caller

READ = "compute:events:read"


def require(caller: Caller, *, platform: bool) -> str | None:
    """The tenant whose events the caller reads; None for all of the platform's.

    Raises:
        AccessDenied: a policy denies it, or all tenants' are asked for by no operator.
    """
    if platform:
        access.require_operator(caller)
    decisions.decide(caller, READ, resource_id="*").require()
    return None if platform else caller.tenant_id
