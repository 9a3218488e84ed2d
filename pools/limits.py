"""Limits of a pool and of its offers on what a tenant holds there, beside the tenant's own quota.

Each is a quota like the tenant's: a row that counts charges. It may be set while the tenant holds
something, and then counts that from the start, so charging stands still for the moment it takes.
"""

from django.db import transaction

from bettercompute import errors, sql
from pools import quota
from pools.quota import Amounts

LIMITS = sql.load(__package__, "limits")


def limit_pool(tenant_id: str, pool_id: str, resource: str, maximum: int) -> None:
    """Limit what the tenant holds of a resource in this pool, the pool's owner included.

    Raises:
        errors.InvalidInput: an unknown resource, or a limit that cannot be stored.
    """
    quota.check_limit(resource, maximum)
    with transaction.atomic():
        await_charges()
        changed = LIMITS.run(
            "limit_pool", tenant_id=tenant_id, pool_id=pool_id, resource=resource, max=maximum
        )
        if changed:
            quota.tell(tenant_id, resource, maximum, pool_id=pool_id)


def lift_pool(tenant_id: str, pool_id: str, resource: str) -> None:
    """Take such a limit away again.

    Raises:
        errors.NotFound: there is none.
    """
    with transaction.atomic():
        lifted = LIMITS.run("lift_pool", tenant_id=tenant_id, pool_id=pool_id, resource=resource)
        if not lifted:
            raise errors.NotFound("There is no such limit in this pool.")
        quota.tell(tenant_id, resource, None, pool_id=pool_id)


def limit_offer(offer_id: str, amounts: Amounts) -> None:
    """Limit what is held by an offer to this; what is not named is not limited.

    The caller's transaction took ``await_charges`` before any row of a quota.
    """
    LIMITS.run(
        "limit_offer",
        offer_id=offer_id,
        resources=list(amounts),
        amounts=list(amounts.values()),
    )


def await_charges() -> None:
    """Let the charges under way finish, and new ones wait until the transaction ends."""
    LIMITS.run("await_charges")
