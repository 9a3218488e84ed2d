"""Memberships: an account's role at a tenant."""

from bettercompute.iam.models import Account, Membership, Role, Tenant


def add(account: Account, tenant: Tenant, *, role: Role = Role.MEMBER) -> Membership:
    """Give an account a role at a tenant; a role it already has there is replaced."""
    membership, _ = Membership.objects.update_or_create(
        account=account, tenant=tenant, defaults={"role": role}
    )
    return membership


def remove(account: Account, tenant: Tenant) -> bool:
    """Take an account out of a tenant; its tokens there stop working at once."""
    deleted, _ = Membership.objects.filter(account=account, tenant=tenant).delete()
    return deleted > 0
