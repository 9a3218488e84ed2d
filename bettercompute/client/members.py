"""Members of the tenant: those who can act for it, and whom a reservation can be shared with."""

from collections.abc import Iterable

from bettercompute.client import accounts, calls, failures, paging
from bettercompute.client.flows import Api, Flow
from bettercompute.wire.iam import Member, MemberList


def list_(api: Api) -> Flow[list[Member]]:
    """Who can act for the tenant, by name."""
    tenant = yield from accounts.tenant_id_if_named(api)
    return (
        yield from paging.whole(
            api, calls.get("/members", MemberList, tenantId=tenant, limit="200")
        )
    )


def account_ids(api: Api, names: Iterable[str]) -> Flow[list[str]]:
    """The account ids of members of the tenant, each given by its name or its id.

    Raises:
        failures.NotFound: somebody is no member.
    """
    wanted = list(names)
    if not wanted:
        return []
    known = yield from list_(api)
    by_name = {member.username: member.account_id for member in known}
    ids = {member.account_id for member in known}
    found = [name if name in ids else by_name.get(name) for name in wanted]
    if None in found:
        stranger = wanted[found.index(None)]
        raise failures.NotFound(f"There is no member {stranger} in this tenant.")
    return [account_id for account_id in found if account_id is not None]
