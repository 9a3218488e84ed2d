"""Reads of nodes: one, a page, and what is on a node. For operators and owners of pools."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bettercompute import clock, errors, sql
from bettercompute.iam import decisions
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes
from bettercompute.states import NodeState
from bettercompute.web import pagination
from bettercompute.wire import nodes as wire
from bettercompute.wire.base import PAGE_DEFAULT
from nodes import assignments, inventory, notices
from nodes.models import Device, Node
from nodes.notices import Place

QUERIES = sql.load(__package__, "queries")

CURSOR = "nodes"
READ = "compute:nodes:read"
MANAGE = "compute:nodes:manage"

unapplied_inventories = inventory.unapplied
nodes_unconfirmed = assignments.nodes_unconfirmed


@dataclass(frozen=True, slots=True)
class Filters:
    """Which nodes a list shows."""

    pool_id: str | None = None
    state: NodeState | None = None


@dataclass(frozen=True, slots=True)
class Occupant:
    """An allocation that holds devices of a node, and whose it is."""

    owner_key: str
    allocation_id: str
    device_ids: tuple[str, ...]
    until: datetime
    wanted: bool  # the node's agent holds it by now


def access_node(caller: Caller, node_id: str, *, action: str = READ) -> Place:
    """The node, if the caller runs the platform or its tenant owns the pool.

    Raises:
        errors.NotFound: there is none, or it is in somebody else's pool.
        errors.AccessDenied: a policy denies the action.
    """
    found = notices.places([node_id])
    if not found or not (caller.is_operator or found[0].tenant_id == caller.tenant_id):
        raise errors.NotFound(f"There is no node {node_id[:100]} in your pools.")
    place = found[0]
    attributes = Attributes(tenant=place.tenant_id, pool=place.pool_id)
    decisions.decide(caller, action, resource_id=node_id, attributes=attributes).require()
    return place


def page(
    caller: Caller, filters: Filters, *, limit: int = PAGE_DEFAULT, cursor: str | None = None
) -> wire.NodeList:
    """One page of the nodes that the caller may see, by id.

    Raises:
        errors.InvalidInput: the cursor is not of this list.
        errors.AccessDenied: a policy denies reading nodes.
    """
    after = "" if cursor is None else str(pagination.decode(CURSOR, cursor, str)[0])
    attributes = Attributes(pool=filters.pool_id or "")
    decisions.decide(caller, READ, resource_id="*", attributes=attributes).require()
    rows = QUERIES.all(
        "page",
        tenant_id=None if caller.is_operator else caller.tenant_id,
        pool_id=filters.pool_id,
        state=filters.state,
        node_id=None,
        after=after,
        limit=limit + 1,
    )
    items = [wire.NodeSummary.model_validate(_summary(row)) for row in rows[:limit]]
    more = len(rows) > limit
    return wire.NodeList(
        items=items, next_cursor=pagination.encode(CURSOR, items[-1].id) if more else None
    )


def get(caller: Caller, node_id: str) -> wire.Node:
    """One node with its devices, resources and conditions. Raises as ``access_node``."""
    return show(access_node(caller, node_id))


def show(place: Place) -> wire.Node:
    """A node that the caller has access to, as answered."""
    (row,) = QUERIES.all(
        "page", tenant_id=None, pool_id=None, state=None, node_id=place.node_id, after="", limit=1
    )
    node = Node.objects.select_related("session").get(pk=place.node_id)
    session = getattr(node, "session", None)
    return wire.Node(
        **_summary(row),
        labels=node.labels,
        system_labels=node.system_labels,
        taints=node.taints,
        resources=[
            wire.NodeResource(
                resource=each.resource, allocatable=each.allocatable, allocated=each.allocated
            )
            for each in node.resources.order_by("resource")
        ],
        devices=[_device(each) for each in node.devices.order_by("index", "id")],
        condition_details=[
            wire.NodeCondition(
                type=each.type,
                reason=each.reason,
                message=each.message,
                since=clock.to_ms(each.since),
            )
            for each in node.conditions.order_by("type")
        ],
        agent_version=session.agent_version if session else "",
        last_seen=clock.to_ms(session.last_seen_at) if session else None,
        created_at=clock.to_ms(node.created_at),
    )


def effect(node_id: str) -> wire.NodeEffect:
    """What is on the node."""
    row = QUERIES.one("effect", node_id=node_id)
    assert row is not None
    allocations, devices, last_end = row
    return wire.NodeEffect(
        allocations=allocations,
        devices=devices,
        last_end=None if last_end is None else clock.to_ms(last_end),
    )


def occupants(node_id: str, *, device_id: str | None = None) -> list[Occupant]:
    """Who holds the node, or one of its devices, now or later; the first to end comes first."""
    rows = QUERIES.all("occupants", node_id=node_id, device_id=device_id)
    return [Occupant(row[0], row[1], tuple(row[2]), *row[3:]) for row in rows]


def _summary(row: sql.Row) -> dict[str, Any]:
    node_id, pool_id, name, state, cordoned, version, bookable, healthy, conditions = row
    return {
        "id": node_id,
        "pool_id": pool_id,
        "name": name,
        "state": NodeState(state),
        "cordoned": cordoned,
        "eligible": state == NodeState.READY and not cordoned,
        "bookable_devices": bookable,
        "healthy_devices": healthy,
        "conditions": conditions,
        "version": version,
    }


def _device(row: Device) -> wire.NodeDevice:
    return wire.NodeDevice(
        id=row.pk,
        gpu_id=row.gpu_id,
        kind=row.kind,
        bookable=row.bookable_mode is not None,
        model=row.model,
        product=row.product,
        profile=row.profile,
        memory_mib=row.memory_mib,
        index=row.index,
        numa_node=row.numa_node,
        nvlink_group=row.nvlink_group,
        healthy=row.healthy,
        health_reason=row.health_reason,
        quarantined=row.quarantined,
    )
