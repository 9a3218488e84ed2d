"""Memberships: an account's role at a tenant."""

from collections.abc import Sequence
from enum import StrEnum
from typing import cast

from django.db import transaction
from django.db.models import Q, QuerySet

from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.errors import FieldError, InvalidInput
from bettercompute.iam.callers import RoleName
from bettercompute.iam.models import Account, Membership, Role, Tenant

_OPERATES = Q(is_staff=True) | Q(is_superuser=True)


class Absence(StrEnum):
    """Why an account no longer acts for a tenant."""

    ACCOUNT_DISABLED = "AccountDisabled"
    NO_MEMBER = "NoMember"


def add(account: Account, tenant: Tenant, *, role: Role = Role.MEMBER) -> Membership:
    """Give an account a role at a tenant; a role it already has there is replaced."""
    with transaction.atomic():
        membership, _ = Membership.objects.update_or_create(
            account=account, tenant=tenant, defaults={"role": role}
        )
        _record("add", account, tenant, role=role)
    return membership


def remove(account: Account, tenant: Tenant) -> bool:
    """Take an account out of a tenant; its tokens there stop working at once."""
    with transaction.atomic():
        deleted, _ = Membership.objects.filter(account=account, tenant=tenant).delete()
        if deleted:
            _record("remove", account, tenant)
    return deleted > 0


def _record(verb: str, account: Account, tenant: Tenant, **detail: object) -> None:
    about = Thing("account", account.pk)
    action = f"iam:memberships:{verb}"
    entries.record(action, about, tenant_id=tenant.pk, username=account.username, **detail)


def roles(tenant_id: str) -> dict[str, RoleName]:
    """The role of each member of a tenant, by account."""
    rows = Membership.objects.filter(tenant_id=tenant_id).values_list("account_id", "role")
    return {account_id: cast(RoleName, role) for account_id, role in rows}


def absence(account_id: str, tenant_id: str) -> Absence | None:
    """Why the account cannot act for the tenant now; None where it can, as operators always do."""
    active = Account.objects.filter(pk=account_id, is_active=True)
    if active.filter(_OPERATES | Q(memberships__tenant_id=tenant_id)).exists():
        return None
    return Absence.NO_MEMBER if active.exists() else Absence.ACCOUNT_DISABLED


def of_tenant(tenant_id: str, *, after: str | int | None = None) -> "QuerySet[Membership]":
    """Who can act for the tenant, by name; those behind a name, where one is given."""
    members = Membership.objects.filter(tenant_id=tenant_id, account__is_active=True)
    if after is not None:
        members = members.filter(account__username__gt=after)
    return members.select_related("account").order_by("account__username")


def account_id(tenant_id: str, username: str) -> str | None:
    """Whose name it is at the tenant, also of one whose account is disabled; None of nobody."""
    named = Membership.objects.filter(tenant_id=tenant_id, account__username=username)
    return named.values_list("account_id", flat=True).first()


def require(tenant_id: str, account_ids: Sequence[str], *, field: str) -> None:
    """Let pass only members of the tenant: whoever is elsewhere is as one that nobody is.

    Raises:
        InvalidInput: with the place of each that is none in the list ``field``.
    """
    if not account_ids:
        return
    members = set(
        of_tenant(tenant_id)
        .filter(account_id__in=set(account_ids))
        .values_list("account_id", flat=True)
    )
    wrong = [
        FieldError(f"{field}[{index}]", "is no member of this tenant")
        for index, account_id in enumerate(account_ids)
        if account_id not in members
    ]
    if wrong:
        raise InvalidInput(errors=wrong)
