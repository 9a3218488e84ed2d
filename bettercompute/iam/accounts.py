"""Accounts: how they come about, and what may be changed about them."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.errors import Conflict
from bettercompute.iam.callers import Caller
from bettercompute.iam.models import Account


class OwnRights(Conflict):
    """Another operator must take these rights from you, so that one is always left."""


def create(
    *, username: str, password: str | None, email: str = "", time_zone: str = "UTC", operator: bool
) -> Account:
    """A new account; without a password it can only use API tokens."""
    with transaction.atomic():
        account = Account.objects.create_user(
            username, email, password, time_zone=time_zone, is_staff=operator
        )
        _record("create", account.pk, username=username, operator=operator)
    return account


def id_of(username: str) -> str:
    """The id of the account of this name; empty where there is none."""
    found = Account.objects.filter(username=username).values_list("pk", flat=True).first()
    return found or ""


def change(caller: Caller, account: Account, values: Mapping[str, Any]) -> None:
    """Store what an operator says of an account; ``is_staff`` makes an operator.

    Raises:
        OwnRights: operators cannot lock themselves out.
    """
    if account.pk == caller.account_id and not (values["is_active"] and values["is_staff"]):
        raise OwnRights
    stored = dict(values)
    if not values["is_staff"]:
        stored["is_superuser"] = False  # the other way to be an operator
    with transaction.atomic():
        rows = Account.objects.filter(pk=account.pk)
        before = rows.values(*stored).first()
        rows.update(**stored)
        _record("change", account.pk, before=before, after=stored)


def set_password(account: Account, password: str) -> None:
    """Give an account another password; its open sessions end."""
    account.set_password(password)
    with transaction.atomic():
        account.save(update_fields=["password"])
        _record("set-password", account.pk)


def set_time_zone(caller: Caller, name: str) -> None:
    """Show this account its times in the zone; the caller has checked that there is one."""
    with transaction.atomic():
        Account.objects.filter(pk=caller.account_id).update(time_zone=name)
        _record("set-time-zone", caller.account_id, after=name)


def _record(verb: str, account_id: str, **detail: object) -> None:
    """An account is the platform's matter: it may belong to several tenants, or to none."""
    entries.record(f"iam:accounts:{verb}", Thing("account", account_id), tenant_id="", **detail)
