"""Reads of confirmations: a person's own, an admin's whole tenant, an agent's own questions."""

from django.db.models import QuerySet

from bettercompute import errors
from bettercompute.iam.callers import Caller
from reservations.confirming.rows import CONFIRMATIONS
from reservations.models import Confirmation


def visible(caller: Caller) -> QuerySet[Confirmation]:
    """Those that the caller may see, newest first."""
    found = Confirmation.objects.filter(tenant_id=caller.tenant_id)
    if caller.delegation is not None:
        found = found.filter(token_id=caller.token_id)
    elif caller.role != "admin":
        found = found.filter(account_id=caller.account_id)
    return found.select_related("account", "decided_by", "token").order_by("-id")


def get(caller: Caller, confirmation_id: str) -> Confirmation:
    """One of them.

    Raises:
        errors.NotFound: there is none that the caller may see.
    """
    found = visible(caller).filter(pk=confirmation_id).first()
    if found is None:
        raise errors.NotFound(
            f"There is no confirmation {confirmation_id[:100]}, or you may not see it."
        )
    return found


def seen(caller: Caller, confirmation_id: str | None) -> Confirmation | None:
    """The same, where it is there and for the caller to see."""
    return None if confirmation_id is None else visible(caller).filter(pk=confirmation_id).first()


def sees(caller: Caller, confirmation_id: str | None) -> bool:
    """Whether it is there, and for the caller to see; no statement where nobody was asked."""
    return confirmation_id is not None and visible(caller).filter(pk=confirmation_id).exists()


def open_of(caller: Caller) -> int:
    """How many await the caller's own answer."""
    row = CONFIRMATIONS.one("open_of", account_id=caller.account_id, tenant_id=caller.tenant_id)
    assert row is not None
    count: int = row[0]
    return count


def live_keys() -> list[str]:
    """All that have a deadline ahead: for the resync (C27)."""
    return [key for (key,) in CONFIRMATIONS.all("live_keys")]
