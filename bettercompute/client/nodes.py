"""Nodes: what they have and how they are, for operators and owners of pools (N18)."""

from bettercompute.client import accounts, calls, flows, paging
from bettercompute.client.flows import Api, Flow, Pages
from bettercompute.states import NodeState
from bettercompute.wire.nodes import Node, NodeList, NodeOperation, NodeSummary, NodeVerb


def pages(
    api: Api,
    *,
    pool_id: str | None = None,
    state: NodeState | str | None = None,
    page_size: int = 50,
) -> Pages[NodeSummary]:
    """The nodes of the tenant's pools, by id; an operator's are all."""
    call = calls.get("/nodes", NodeList, poolId=pool_id, state=state, limit=str(page_size))
    return paging.pages(api, call)


def get(api: Api, node_id: str) -> Flow[Node]:
    """One node, with its devices, resources and conditions."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    call = calls.get(f"/nodes/{calls.segment(node_id)}", Node, tenantId=tenant_id)
    return (yield from flows.exchange(api, call))


def cordon(
    api: Api, node_id: str, *, preview: bool = False, version: int | None = None
) -> Flow[NodeOperation]:
    """Have it take no new work; what is there stays until it ends. Repeating it changes nothing.

    With ``preview`` nothing changes at all; with ``version``, only if it is the current one.
    """
    return (yield from _verb(api, node_id, "cordon", preview, version))


def uncordon(
    api: Api, node_id: str, *, preview: bool = False, version: int | None = None
) -> Flow[NodeOperation]:
    """Have it take new work again; arguments as for ``cordon``."""
    return (yield from _verb(api, node_id, "uncordon", preview, version))


def _verb(
    api: Api, node_id: str, verb: str, preview: bool, version: int | None
) -> Flow[NodeOperation]:
    tenant_id = yield from accounts.tenant_id_if_named(api)
    call = calls.post(
        f"/nodes/{calls.segment(node_id)}/{verb}",
        NodeVerb(tenant_id=tenant_id, preview=preview),
        NodeOperation,
        repeatable=version is None,
        headers=calls.if_match(version),
    )
    return (yield from flows.exchange(api, call))
