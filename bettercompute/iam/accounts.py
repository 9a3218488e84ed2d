"""Accounts: how they come about, and what may be changed about them."""

from collections.abc import Mapping
from typing import Any

from bettercompute.errors import Conflict
from bettercompute.iam.callers import Caller
from bettercompute.iam.models import Account


class OwnRights(Conflict):
    """Another operator must take these rights from you, so that one is always left."""


def create(
    *, username: str, password: str | None, email: str = "", time_zone: str = "UTC", operator: bool
) -> Account:
    """A new account; without a password it can only use API tokens."""
    return Account.objects.create_user(
        username, email, password, time_zone=time_zone, is_staff=operator
    )


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
    Account.objects.filter(pk=account.pk).update(**stored)


def set_password(account: Account, password: str) -> None:
    """Give an account another password; its open sessions end."""
    account.set_password(password)
    account.save(update_fields=["password"])


def set_time_zone(caller: Caller, name: str) -> None:
    """Show this account its times in the zone; the caller has checked that there is one."""
    Account.objects.filter(pk=caller.account_id).update(time_zone=name)
