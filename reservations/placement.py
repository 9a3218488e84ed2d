"""Committing a plan: guarded statements under a savepoint, and replanning without the loser.

The planner says where a request would fit in a snapshot; here that becomes rows, or not. Each
attempt runs under a savepoint. A node, atom or counter that a rival took, or that is no longer
eligible under lock, rolls back to it, and the next plan does without that node (C17, C18).
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from bettercompute import clock, failpoints, ids
from bettercompute.failpoints import Failpoint
from bettercompute.telemetry import metrics, tracing
from nodes import assignments, bookings, eligibility, resources
from nodes.assignments import PlannedAssignment
from nodes.eligibility import Locked, LockedDevice
from pools import chance, snapshot
from pools.catalogue import Spot
from pools.planner import filters
from pools.planner import request as planning
from pools.planner.packing import Part
from pools.planner.plan import COMBINATIONS_MAX, Combination, NoFit, Plan
from pools.planner.reasons import Reason
from pools.planner.request import Demand
from pools.planner.snapshot import Node, Taint
from reservations.models import Allocation

ATTEMPTS_MAX = 3
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Window:
    """``[start, end)``, both whole milliseconds (R4)."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Claim:
    """What to place: for whom, where, how much, and when."""

    reservation_id: str
    pool_id: str
    demand: Demand
    binding: str
    duration: timedelta
    requested_start: datetime | None
    preempts: Spot | None = None  #: on what terms spot gives way to it; None: spot itself

    def window(self, now: datetime) -> Window:
        """The window if it were placed now: a start that has passed is now (R17)."""
        earliest = clock.whole(now)
        start = max(self.requested_start or earliest, earliest)
        return Window(start, start + self.duration)


@dataclass(frozen=True, slots=True)
class Room:
    """Allocations that end at an instant, in the transaction that books in their place."""

    allocations: tuple[Allocation, ...]
    at: datetime

    @property
    def allocation_ids(self) -> list[str]:
        """Whose bookings end."""
        return [each.id for each in self.allocations]


@dataclass(frozen=True, slots=True)
class Placed:
    """It is booked: these allocations, in this window."""

    window: Window
    allocations: tuple[Allocation, ...]
    gpu_milli: int


@dataclass(frozen=True, slots=True)
class Unplaced:
    """It does not fit now, for these reasons; or only rivals were faster."""

    reasons: tuple[Reason, ...]
    lost_to_rivals: bool


class _Lost(Exception):
    """A rival, or a change of eligibility, took these nodes out of the plan."""

    def __init__(self, nodes: frozenset[str]) -> None:
        self.nodes = nodes
        super().__init__(", ".join(sorted(nodes)))


def look(claim: Claim, *, exclude_nodes: frozenset[str] = frozenset()) -> Plan | NoFit:
    """Where it would fit now. Takes no locks; ``place`` decides."""
    window = claim.window(clock.now())
    with tracing.span("plan", attributes=_about(claim)), metrics.placing("plan"):
        return snapshot.find(
            claim.pool_id,
            claim.demand,
            start=window.start,
            end=window.end,
            rng=chance.RNG,
            exclude_nodes=exclude_nodes,
        )


def _about(claim: Claim) -> dict[str, tracing.Value]:
    """What a span says of it."""
    return {
        "better_compute.reservation_id": claim.reservation_id,
        "better_compute.pool_id": claim.pool_id,
    }


def place(
    claim: Claim, found: Plan | NoFit, *, now: datetime, giving_back: Sequence[Allocation] = ()
) -> Placed | Unplaced:
    """Commit a plan inside the caller's transaction, replanning where rivals were faster.

    The caller holds the reservation's row and has charged its quota (C19). ``now`` is the
    transaction's, so that window, bookings and whoever truncates them go by one clock.
    ``giving_back`` is what the caller frees next in this transaction, whose hosts' resources are
    then locked together with the new ones: those first and these later could deadlock.
    """
    lost: frozenset[str] = frozenset()
    for attempt in range(1, ATTEMPTS_MAX + 1):
        if isinstance(found, NoFit):
            return Unplaced(found.reasons, lost_to_rivals=bool(lost))
        window = claim.window(now)
        try:
            with transaction.atomic():
                return _commit(claim, found, window, giving_back)
        except _Lost as conflict:
            lost |= conflict.nodes
        if attempt < ATTEMPTS_MAX:
            found = look(claim, exclude_nodes=lost)
    return Unplaced((), lost_to_rivals=True)


def place_in_room(
    claim: Claim, plan: Plan, *, now: datetime, room: Sequence[Room]
) -> Placed | None:
    """Commit a plan on devices that others give up in this very transaction, or nothing of it.

    The caller holds all of their reservations' rows. There is no second plan: who else would have
    to give way is for the caller to find out.
    """
    there = {allocation.node_id for each in room for allocation in each.allocations}
    try:
        with transaction.atomic():
            eligibility.keep_placements_out(there.union(plan.node_ids))
            return _commit(claim, plan, claim.window(now), (), room)
    except _Lost:
        return None


def place_exactly(claim: Claim, plan: Plan, *, now: datetime) -> Placed | None:
    """Commit this very plan inside the caller's transaction; None where a rival was faster."""
    try:
        with transaction.atomic():
            return _commit(claim, plan, claim.window(now), ())
    except _Lost:
        return None


def _commit(
    claim: Claim,
    plan: Plan,
    window: Window,
    giving_back: Sequence[Allocation],
    room: Sequence[Room] = (),
) -> Placed:
    """One attempt, in the lock order: nodes, devices, bookings, resources.

    Raises:
        _Lost: rivals, or a change of eligibility, were faster.
    """
    with tracing.span("book", attributes=_about(claim)), metrics.placing("book"):
        return _book(claim, plan, window, giving_back, room)


def _book(
    claim: Claim,
    plan: Plan,
    window: Window,
    giving_back: Sequence[Allocation],
    room: Sequence[Room],
) -> Placed:
    locked = eligibility.lock(node_ids=plan.node_ids, device_ids=plan.device_ids)
    gone = unfit(claim.demand, plan, locked, window)
    if gone:
        raise _Lost(gone)
    parts = {ids.new("alloc"): part for part in plan.parts}
    for each in room:
        bookings.truncate(each.allocation_ids, at=each.at)
    _book_devices(parts, window)
    _book_resources(parts, window, giving_back, room)
    failpoints.reach(Failpoint.PLACEMENT_BOOKED)
    placed = outcome(claim, parts, window, locked)
    write([(claim, placed)])
    return placed


def outcome(claim: Claim, parts: Mapping[str, Part], window: Window, locked: Locked) -> Placed:
    """What becomes of a claim whose parts are booked under these allocations' ids."""
    return Placed(
        window,
        tuple(_allocation(claim, key, part) for key, part in parts.items()),
        gpu_milli=sum(
            _milli(claim.demand, locked.devices[device])
            for part in parts.values()
            for device in part.device_ids
        ),
    )


def write(placed: Sequence[tuple[Claim, Placed]]) -> None:
    """The rows of the allocations, and what will be wanted of their nodes."""
    Allocation.objects.bulk_create(row for _, each in placed for row in each.allocations)
    assignments.plan(
        _assignment(claim, row, each.window) for claim, each in placed for row in each.allocations
    )


def _milli(demand: Demand, device: LockedDevice) -> int:
    """What a booked device costs of the quota, by its class and not by its size (R30)."""
    assert device.bookable_mode is not None, "it was judged eligible"
    return planning.milli(snapshot.CLASSES[device.bookable_mode], demand.replicas)


def serves(demand: Demand, allocation: Allocation, locked: Locked, window: Window) -> bool:
    """Whether node and devices of an allocation could be booked for the window as they are now."""
    part = Part(
        node_id=allocation.node_id,
        node_name=allocation.node_id,
        device_ids=tuple(allocation.device_ids),
        resources=allocation.resources,
    )
    lines = (tuple(options) for options in itertools.product(*demand.lines))
    return any(
        _node_serves(demand, combination, part, locked)
        for combination in itertools.islice(lines, COMBINATIONS_MAX)
    ) and all(_device_serves(part, device, locked, window) for device in part.device_ids)


def unfit(demand: Demand, plan: Plan, locked: Locked, window: Window) -> frozenset[str]:
    """C13: the nodes of a plan that do not serve it any more; labels are read again too."""
    return frozenset(
        part.node_id
        for part in plan.parts
        if not _node_serves(demand, plan.lines, part, locked)
        or not all(_device_serves(part, device, locked, window) for device in part.device_ids)
    )


def _node_serves(demand: Demand, lines: Combination, part: Part, locked: Locked) -> bool:
    """The planner's own filters, on the row as it is now."""
    row = locked.nodes.get(part.node_id)
    if row is None or not row.eligible:
        return False
    now = Node(
        id=row.id,
        name=part.node_name,
        cells=(),
        state=row.state,
        cordoned=row.cordoned,
        labels=row.labels,
        system_labels=row.system_labels,
        taints=tuple(
            Taint(t["key"], t.get("value") or "", t.get("effect") or "NoSchedule")
            for t in row.taints
        ),
        resources=part.resources,
    )
    return filters.admits(now, lines, demand)


def _device_serves(part: Part, device_id: str, locked: Locked, window: Window) -> bool:
    device = locked.devices.get(device_id)
    return (
        device is not None
        and device.eligible
        and device.node_id == part.node_id
        and not device.is_worked_on(window.start, window.end)
    )


def _book_devices(parts: Mapping[str, Part], window: Window) -> None:
    """C9: fewer rows than asked means that a rival holds one of the devices."""
    claims = {key: part.device_ids for key, part in parts.items()}
    wanted = sum(len(part.device_ids) for part in parts.values())
    if bookings.book_gang(claims=claims, start=window.start, end=window.end) < wanted:
        raise _Lost(_taken(parts, window))


def _taken(parts: Mapping[str, Part], window: Window) -> frozenset[str]:
    """The nodes on which somebody else's booking is in the way."""
    nodes = {device: part.node_id for part in parts.values() for device in part.device_ids}
    found = bookings.blocking(nodes, start=window.start, end=window.end)
    return frozenset(nodes[b.device_id] for b in found if b.allocation_id not in parts)


def _book_resources(
    parts: Mapping[str, Part],
    window: Window,
    giving_back: Sequence[Allocation],
    room: Sequence[Room],
) -> None:
    """C12: all of it or nothing."""
    amounts = [(part.node_id, key, part.resources) for key, part in parts.items()]
    leaving = [*giving_back, *(allocation for each in room for allocation in each.allocations)]
    if leaving:
        old = [(each.node_id, each.id, each.resources) for each in leaving]
        resources.lock(node_amounts=[*amounts, *old])
    for each in room:
        resources.free(each.allocation_ids, at=each.at)
    if not resources.book(node_amounts=amounts, start=window.start, end=window.end):
        raise _Lost(frozenset(part.node_id for part in parts.values()))


def _allocation(claim: Claim, allocation_id: str, part: Part) -> Allocation:
    made = Allocation(
        id=allocation_id,
        reservation_id=claim.reservation_id,
        node_id=part.node_id,
        device_ids=list(part.device_ids),
        resources=part.resources,
    )
    made.node_name = part.node_name  # type: ignore[attr-defined]  # for the answer, see queries
    return made


def _assignment(claim: Claim, allocation: Allocation, window: Window) -> PlannedAssignment:
    return PlannedAssignment(
        allocation_id=allocation.id,
        owner_key=claim.reservation_id,
        node_id=allocation.node_id,
        device_ids=allocation.device_ids,
        until=window.end,
        limits=_limits(allocation.resources),
        binding=claim.binding,
    )


def _limits(booked: Mapping[str, int]) -> dict[str, int]:
    """Booked host resources as the node enforces them (R31)."""
    limits = {
        "cpuMillis": booked.get(resources.VCPU, 0) * 1_000,
        "memoryBytes": booked.get(resources.MEMORY_GIB, 0) * GIB,
        "hugepages1Gi": booked.get(resources.HUGEPAGES_1GI, 0),
    }
    return {name: amount for name, amount in limits.items() if amount}
