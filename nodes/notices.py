"""Whom a change of nodes is told: the outbox, and those who wait for the pool."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bettercompute import sql
from bettercompute.coordination import workqueue
from nodes import assignments
from outbox import events
from outbox.events import NewEvent

ELIGIBILITY = sql.load(__package__, "eligibility")

POOL_KIND = "pool"  # the work-queue kind that tries a pool's waiting reservations again


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node belongs."""

    node_id: str
    name: str
    pool_id: str
    tenant_id: str
    state: str


def places(node_ids: Iterable[str]) -> list[Place]:
    """Where these nodes belong, by id; no statement where there are none."""
    keys = list(node_ids)
    return [Place(*row) for row in ELIGIBILITY.all("places", node_ids=keys)] if keys else []


def named(name: str, *, pool_ids: Iterable[str] | None) -> list[Place]:
    """Where the nodes of this name belong: one a pool; None for the pools is any pool."""
    pools = None if pool_ids is None else list(pool_ids)
    return [Place(*row) for row in ELIGIBILITY.all("named", name=name, pool_ids=pools)]


def nodes_of(pool_id: str, *, node_id: str | None = None) -> list[str]:
    """The nodes of a pool, or the one that is named, by id."""
    rows = ELIGIBILITY.all("nodes_of_pool", pool_id=pool_id, node_id=node_id)
    return [found for (found,) in rows]


def wake(*, changed: Iterable[str], gained: Iterable[str]) -> None:
    """Let those look again whom a change of these nodes concerns, in the changing transaction.

    Who has assignments on a changed node; and where a node gained something that may be booked,
    the waiting reservations of its pool (C18). One statement, so keys are locked in one order.
    """
    owners = assignments.owners_on(changed)
    pools = sorted({place.pool_id for place in places(gained)})
    workqueue.enqueue_many(
        [(assignments.OWNER_KIND, owner, None) for owner in owners]
        + [(POOL_KIND, pool_id, None) for pool_id in pools]
    )


def publish_of_nodes(event: str, nodes: Iterable[str], *, reason: str | None = None) -> None:
    """Publish what happened to these nodes, in the transaction that did it (C20)."""
    nodes = list(nodes)
    if not nodes:
        return
    events.publish_many(
        NewEvent(
            type=event,
            tenant_id=place.tenant_id,
            subject=f"node/{place.node_id}",
            data={
                "poolId": place.pool_id,
                "name": place.name,
                "state": place.state,
                "reason": reason,
            },
        )
        for place in places(nodes)
    )


def publish_of_devices(event: str, node_id: str, reasons: Mapping[str, str]) -> None:
    """Publish what happened to devices of one node, each with its reason."""
    if not reasons:
        return
    events.publish_many(
        NewEvent(
            type=event,
            tenant_id=place.tenant_id,
            subject=f"device/{device_id}",
            data={"poolId": place.pool_id, "nodeId": node_id, "reason": reason or None},
        )
        for place in places([node_id])
        for device_id, reason in sorted(reasons.items())
    )
