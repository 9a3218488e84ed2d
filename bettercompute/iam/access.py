"""Rules of right that are no policy's business: who runs the platform, who runs a tenant."""

from bettercompute.errors import AccessDenied
from bettercompute.iam.callers import Caller, Identity

PERSON = "person"


def require_person(caller: Caller) -> None:
    """Only people pass: an agent makes no credentials and changes no rules."""
    if caller.delegation is not None:
        raise AccessDenied(
            f"{caller.agent} acts for a person; only the person may do this.", needs=PERSON
        )


def require_operator(caller: Caller | Identity) -> None:
    """Only operators of the platform pass."""
    if not caller.is_operator:
        raise AccessDenied("Only an operator of the platform may do this.", needs="operator")


def is_admin(caller: Caller) -> bool:
    """Whether ``require_admin`` lets the caller pass."""
    return caller.role == "admin" or caller.is_operator


def require_admin(caller: Caller) -> None:
    """Only admins of the caller's tenant pass, and operators."""
    if not is_admin(caller):
        raise AccessDenied("Only an admin of the tenant may do this.", needs="admin")
