"""What the ids that a page mentions are called, for whoever may see that; the others stay ids."""

from collections.abc import Collection, Mapping

from django.urls import reverse

from bettercompute import ids
from bettercompute.iam import memberships
from bettercompute.iam.callers import Caller
from bettercompute.pages.parts import Link
from nodes import notices
from pools import queries


def of(caller: Caller, mentioned: Collection[str]) -> Mapping[str, Link]:
    """The name of each that the caller may see, with its page where it has one.

    Nodes and pools: those of the pools that the caller may read, whose pages name them, and to
    operators every node. People: members of the tenant. A few statements, however much it is.
    """
    nodes = [key for key in mentioned if ids.prefix(key) == "node"]
    pools = [key for key in mentioned if ids.prefix(key) == "pool"]
    people = [key for key in mentioned if ids.prefix(key) == "usr"]
    return _places(caller, nodes, pools) | _people(caller, people)


def called(caller: Caller, name: str) -> list[str]:
    """The other way round: ``node/node_…`` and ``pool/pool_…`` of what the caller may see."""
    readable = queries.readable(caller)
    pools = [f"pool/{access.pool_id}" for access in readable if access.name == name]
    within = None if caller.is_operator else [access.pool_id for access in readable]
    return pools + [f"node/{place.node_id}" for place in notices.named(name, pool_ids=within)]


def _places(caller: Caller, node_ids: list[str], pool_ids: list[str]) -> dict[str, Link]:
    if not node_ids and not pool_ids:
        return {}
    readable = {access.pool_id: access.name for access in queries.readable(caller)}
    found = {
        key: Link(reverse("pool", args=[key]), name)
        for key, name in readable.items()
        if key in pool_ids
    }
    for place in notices.places(node_ids):
        if caller.is_operator:
            page = reverse("admin:nodes_node_change", args=[place.node_id])
            found[place.node_id] = Link(page, place.name)
        elif place.pool_id in readable:
            page = reverse("pool", args=[place.pool_id])
            found[place.node_id] = Link(page, place.name)
    return found


def _people(caller: Caller, account_ids: list[str]) -> dict[str, Link]:
    if not account_ids:
        return {}
    members = memberships.of_tenant(caller.tenant_id).filter(account_id__in=account_ids)
    return {each.account_id: Link("", each.account.username) for each in members}
