"""Memberships: an account's role at a tenant."""

from enum import StrEnum

from django.db.models import Q

from bettercompute.iam.models import Account, Membership, Role, Tenant

_OPERATES = Q(is_staff=True) | Q(is_superuser=True)


class Absence(StrEnum):
    """Why an account no longer acts for a tenant."""

    ACCOUNT_DISABLED = "AccountDisabled"
    NO_MEMBER = "NoMember"


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


def absence(account_id: str, tenant_id: str) -> Absence | None:
    """Why the account cannot act for the tenant now; None where it can, as operators always do."""
    active = Account.objects.filter(pk=account_id, is_active=True)
    if active.filter(_OPERATES | Q(memberships__tenant_id=tenant_id)).exists():
        return None
    return Absence.NO_MEMBER if active.exists() else Absence.ACCOUNT_DISABLED
