"""What an account may change about itself."""

from bettercompute.iam.callers import Caller
from bettercompute.iam.models import Account


def set_time_zone(caller: Caller, name: str) -> None:
    """Show this account its times in the zone; the caller has checked that there is one."""
    Account.objects.filter(pk=caller.account_id).update(time_zone=name)
