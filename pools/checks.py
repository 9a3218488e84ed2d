"""Self-checks of pools (C39): the books of quotas balance."""

from bettercompute import findings
from bettercompute.findings import Check, Finding
from pools import quota


@findings.check("quota.charges", invariant=True)
def quota_equals_charges() -> list[Finding]:
    """What each quota says is used is the sum of what reservations are charged (C14)."""
    return [
        Finding(
            "quota.charges",
            f"Tenant {row.tenant_id} has {row.used} {row.resource} in use, but its charges are"
            f" {row.charged}.",
            "Find out what wrote quota_usage or quota_charges beside pools.quota; then set used"
            " to the sum of the charges.",
        )
        for row in quota.unbalanced()
    ]


ALL: tuple[Check, ...] = (quota_equals_charges,)
