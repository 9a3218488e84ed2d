"""Self-checks of pools (C39): the books of quotas balance."""

from bettercompute import findings
from bettercompute.findings import Check, Finding
from pools import quota
from pools.quota import Unbalanced


@findings.check("quota.charges", invariant=True)
def quota_equals_charges() -> list[Finding]:
    """What each quota says is used is the sum of what reservations are charged (C14)."""
    return [
        Finding(
            "quota.charges",
            f"Tenant {row.tenant_id} has {row.used} {row.resource} in use{_where(row)}, but its"
            f" charges are {row.charged}.",
            "Find out what wrote quota_usage or quota_charges beside pools.quota; then set used"
            " to the sum of the charges.",
        )
        for row in quota.unbalanced()
    ]


def _where(row: Unbalanced) -> str:
    if row.offer_id is not None:
        return f" by offer {row.offer_id}"
    return "" if row.pool_id is None else f" in pool {row.pool_id}"


ALL: tuple[Check, ...] = (quota_equals_charges,)
