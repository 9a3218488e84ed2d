"""Amounts of a host (vCPU, memory, huge pages), booked over time (C12).

``allocated`` is the peak of what live bookings claim from now on, so next Monday's booking does not
take today's CPUs. Rows change only under their lock, and what decides is read in a *later*
statement than the one that took the lock: under READ COMMITTED a statement that waits for a lock
still computes its subqueries with the snapshot from before the wait, and overbooks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bettercompute import sql
from nodes import conditions
from nodes.conditions import Condition

RESOURCES = sql.load(__package__, "resources")

VCPU = "vcpu"
MEMORY_GIB = "memoryGiB"
HUGEPAGES_2MI = "hugepages2Mi"
HUGEPAGES_1GI = "hugepages1Gi"
ALL = (HUGEPAGES_1GI, HUGEPAGES_2MI, MEMORY_GIB, VCPU)

NodeAmounts = tuple[str, str, Mapping[str, int]]  # node, allocation, amount by resource


@dataclass(frozen=True, slots=True)
class Overcommitted:
    """A host has less of a resource than its bookings claim at their peak."""

    node_id: str
    resource: str
    admits: int
    allocated: int


@dataclass(frozen=True, slots=True)
class AllocatableChange:
    """What came of saying how much hosts have."""

    changed: frozenset[str]  # nodes where some amount is another than before
    overcommitted: tuple[Overcommitted, ...]


def book(*, node_amounts: Sequence[NodeAmounts], start: datetime, end: datetime) -> bool:
    """Claim these amounts for the window, all or none; answers whether they fit.

    Amounts of 0 are left out. A node without a row for a resource gives none of it.
    """
    columns = _columns(node_amounts)
    if columns is None:
        return True
    node_ids, resources, amounts, allocation_ids = columns
    RESOURCES.all("lock", node_ids=node_ids, resources=resources)
    booked = RESOURCES.run(
        "book",
        node_ids=node_ids,
        resources=resources,
        amounts=amounts,
        allocation_ids=allocation_ids,
        start=start,
        end=end,
    )
    if booked == 0:
        return False
    RESOURCES.run("recount_after_booking", node_ids=node_ids, resources=resources)
    return True


def lock(*, node_amounts: Sequence[NodeAmounts]) -> None:
    """Lock the rows of these amounts in the one order, for whoever books some and frees others."""
    columns = _columns(node_amounts)
    if columns is not None:
        RESOURCES.all("lock", node_ids=columns[0], resources=columns[1])


def free_until(*, node_amounts: Sequence[NodeAmounts], after: datetime) -> datetime | None:
    """The first instant, at or after one, at which these amounts would not fit; None: never.

    For a holder whose own bookings end at ``after`` (R22). A hint, not a claim.
    """
    columns = _columns(node_amounts)
    if columns is None:
        return None
    node_ids, resources, amounts, _ = columns
    row = RESOURCES.one(
        "free_until", node_ids=node_ids, resources=resources, amounts=amounts, after=after
    )
    assert row is not None
    until: datetime | None = row[0]
    return until


def free(allocation_ids: Iterable[str], at: datetime | None = None) -> None:
    """End what these allocations claim at an instant, by default now, and count again.

    Call it for bookings that end by themselves too: counting again is how ``allocated`` learns.
    """
    wanted = list(allocation_ids)
    locked = RESOURCES.all("lock_of_allocations", allocation_ids=wanted)
    RESOURCES.run("remove_later", allocation_ids=wanted, at=at)
    RESOURCES.run("shorten", allocation_ids=wanted, at=at)
    _recount(locked)


def set_allocatable(node_id: str, amounts: Mapping[str, int]) -> AllocatableChange:
    """Say how much of each resource the node has; answers what came of it.

    Less than is booked is accepted and admits nothing new until it fits again.
    """
    return set_allocatable_of_many({node_id: amounts})


def set_allocatable_of_many(
    amounts_by_node: Mapping[str, Mapping[str, int]],
) -> AllocatableChange:
    """``set_allocatable`` for many nodes, in as many statements as for one."""
    rows = [
        (node_id, resource, amount)
        for node_id, amounts in amounts_by_node.items()
        for resource, amount in amounts.items()
    ]
    changed = RESOURCES.all(
        "set_allocatable",
        node_ids=[node_id for node_id, _, _ in rows],
        resources=[resource for _, resource, _ in rows],
        amounts=[amount for _, _, amount in rows],
    )
    _recount(changed)
    found = RESOURCES.all("overcommitted", node_ids=list(amounts_by_node))
    return AllocatableChange(
        changed=frozenset(node_id for node_id, _ in changed),
        overcommitted=tuple(Overcommitted(*row) for row in found),
    )


def all_overcommitted() -> list[Overcommitted]:
    """Every node that has less than is booked of it."""
    return [Overcommitted(*row) for row in RESOURCES.all("overcommitted", node_ids=None)]


def _columns(
    node_amounts: Sequence[NodeAmounts],
) -> tuple[list[str], list[str], list[int], list[str]] | None:
    """Nodes, resources, amounts and allocations of all claims; None where nothing is claimed."""
    claims = [
        (node_id, resource, amount, allocation_id)
        for node_id, allocation_id, amounts in node_amounts
        for resource, amount in amounts.items()
        if amount
    ]
    if not claims:
        return None
    nodes, names, amounts, allocations = zip(*claims, strict=True)
    return list(nodes), list(names), list(amounts), list(allocations)


def _recount(locked: Sequence[sql.Row]) -> None:
    """Count again the rows (node, resource) that this transaction has locked."""
    if not locked:
        return
    counted = RESOURCES.all(
        "recount_and_reset",
        node_ids=[row[0] for row in locked],
        resources=[row[1] for row in locked],
    )
    had_too_little = {node_id for node_id, was_over in counted if was_over}
    if had_too_little:
        still = {row[0] for row in RESOURCES.all("overcommitted", node_ids=list(had_too_little))}
        conditions.clear([Condition.OVERCOMMITTED], had_too_little - still)
